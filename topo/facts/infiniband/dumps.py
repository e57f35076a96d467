"""A dump of a fabric in whichever of the formats that have one."""

from topo.facts.infiniband import ibnetdiscover, ufm_links
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump


def is_dump(text: str) -> bool:
    """Return whether a text is a dump. O(len(text))."""
    return ibnetdiscover.recognises(text) or ufm_links.recognises(text)


def read_dump(text: str) -> FabricDump | Refusal:
    """Return the fabric of a text: of UFM's links, else of ibnetdiscover. O(len(text))."""
    reader = ufm_links if ufm_links.recognises(text) else ibnetdiscover
    found = reader.read(text)
    if isinstance(found, Refusal):
        return found
    (dump,) = (fact for fact in found.facts if isinstance(fact, FabricDump))
    return dump
