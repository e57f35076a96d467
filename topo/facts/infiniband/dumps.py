"""A dump of a fabric in whichever of the formats that have one."""

from collections.abc import Callable, Mapping
from typing import Literal

from topo.facts.infiniband import ibnetdiscover, ufm_links
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump
from topo.model.observation import ParsedProbe

DumpFormat = Literal["ibnetdiscover", "ufm-links"]
_READERS: Mapping[DumpFormat, Callable[[str], ParsedProbe | Refusal]] = {
    "ibnetdiscover": ibnetdiscover.read,
    "ufm-links": ufm_links.read,
}


def is_dump(text: str) -> bool:
    """Return whether a text is a dump. O(len(text))."""
    return ibnetdiscover.recognises(text) or ufm_links.recognises(text)


def read_dump(text: str, form: DumpFormat | None = None) -> FabricDump | Refusal:
    """Return the fabric of a text: of UFM's links, else of ibnetdiscover. O(len(text)).

    `form`: what the text is said to be; it is read as nothing else.
    """
    form = form or ("ufm-links" if ufm_links.recognises(text) else "ibnetdiscover")
    found = _READERS[form](text)
    if isinstance(found, Refusal):
        return found
    (dump,) = (fact for fact in found.facts if isinstance(fact, FabricDump))
    return dump
