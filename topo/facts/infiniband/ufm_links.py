"""The links of NVIDIA UFM, `GET /ufmRest/resources/links`: every cable of the fabrics it manages.

Result: a `FabricDump`, or a refusal with the number of the link that cannot be read.

How: a link names both of its ports, `900a840300ac8c40_5`, by the GUID of the switch or of the
adapter's port, and describes their nodes: a switch as its name, a colon and the label of the port
(`leaf-01:1/3/1`, whose label is `source_port_dname`), an adapter as its driver calls it (`gpu-01
mlx5_0`). The GUID of a port is that of the adapter for all that have one port, as each port of a
ConnectX-4 and later is an adapter of its own; so adapters have the GUIDs that their workers report.
Aggregation nodes, which are parts of switches, are left out.

What it does not say: speeds (`width` alone), which the workers read of their own ports, how many
ports a switch has, when it was asked. UFM answers for all subnets that it manages, and what is down
it does not list.

Why a cut text does not pass for a small fabric: it is no JSON.

Cost: O(len(text)); 90,000 links have 50 MB.

Example: `source_port_name` a…_1 of `leaf-01:1` and `destination_port_name` b…_1 of `gpu-01 mlx5_0`
are one switch, one adapter, one cable.

Source: NVIDIA UFM Enterprise REST API Guide 6.20.0, Links REST API. Older ones (6.11) do not name
the ports apart, and are refused.
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from topo.facts.infiniband.ibnetdiscover import AGGREGATION
from topo.facts.reading.text import WHOLE_TEXT, bounded, shorten
from topo.facts.reading.windows import find_first
from topo.model.errors import BadInputError, Refusal
from topo.model.fabric import Cable, FabricAdapter, FabricDump, FabricSwitch, Guid, Port
from topo.model.observation import ParsedProbe
from topo.model.words import counted

FORMAT = "ufm-links"
BEGINS = re.compile(
    r'^[ \t]{0,32}\[\s{0,64}\{[^{}]{0,4096}?"source_port_name"\s{0,64}:', re.MULTILINE
)
MAX_LINK_CHARS = 1 << 16
"""A link has some 550 characters."""
_USUAL_LINK_CHARS = 1 << 12
_BLANK = re.compile(r"[ \t\n\r]{0,4096}")
"""White space between links (RFC 8259, 2), a piece of it."""
_PORT = re.compile(r"(?:0x)?([0-9a-fA-F]{16})_([0-9]{1,4})", re.ASCII)
_FIX = "give the whole answer of GET /ufmRest/resources/links, of UFM 6.20 or later"
_SIDES = ("source", "destination")
_WORDS = ("name", "dname", "node_description")
_READ = frozenset(f"{side}_port_{word}" for side in _SIDES for word in _WORDS)
_End = tuple[Port, str, bool]
"""A port, the name of its switch or the description of its adapter, and whether it is a switch."""


def recognises(text: str) -> bool:
    """Return whether `text` begins with a link of UFM. O(len(text))."""
    return find_first(BEGINS, text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """Return the fabric of the links.

    Refused: what is no whole JSON, another shape, a port in two links, a switch that is an adapter
    elsewhere, no link.
    """
    try:
        links = list(_links(_documents(text)))
        return _fabric(links)
    except BadInputError as error:
        return error.refusal


def _documents(text: str) -> Iterator[object]:
    """Yield the elements of a list, one after the other; raises `BadInputError`.

    To parse all of the list is one call of C code, which stops all threads for more than a second.
    """
    at = _after_blanks(text, 0)
    if text[at : at + 1] == "{":
        raise _refused("this is no list of links", WHOLE_TEXT)
    if text[at : at + 1] != "[":
        raise _not_whole(text, at)
    at = _after_blanks(text, at + 1)
    is_first = True
    while text[at : at + 1] != "]" or not is_first:
        document, at = _decoded(text, at)
        yield document
        is_first = False
        at = _after_blanks(text, at)
        if text[at : at + 1] == "]":
            break
        if text[at : at + 1] != ",":
            raise _not_whole(text, at)
        at = _after_blanks(text, at + 1)
    if _after_blanks(text, at + 1) < len(text):
        raise _not_whole(text, at)


def _decoded(text: str, at: int) -> tuple[object, int]:
    """Return the value that stands there, and where it ends."""
    for most in (_USUAL_LINK_CHARS, MAX_LINK_CHARS):
        piece = text[at : at + most]
        try:
            found, size = _DECODER.raw_decode(piece)
        except (ValueError, RecursionError):
            continue
        # A number at the end of a piece may go on after it; a link ends with its brace.
        if size < len(piece) or at + size == len(text):
            return found, at + size
    raise _not_whole(text, at)


def _after_blanks(text: str, at: int) -> int:
    """Return where the next character that is none of white space stands."""
    while (found := _BLANK.match(text, at)) is not None and found.end() > at:
        at = found.end()
    return at


def _not_whole(text: str, at: int) -> BadInputError:
    what = "this is no whole JSON: it was cut off or changed"
    return _refused(what, f"line {text.count(chr(10), 0, at) + 1}")


def _needed(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return what is read of a link: a third of its memory, and other threads run in between."""
    return {key: value for key, value in pairs if key in _READ}


_DECODER = json.JSONDecoder(object_pairs_hook=_needed)


def _links(documents: Iterable[object]) -> Iterator[tuple[_End, _End]]:
    """Yield both ends of each link. Raises `BadInputError`."""
    for number, link in enumerate(documents, 1):
        if not isinstance(link, dict):
            raise _refused("this is no link", f"link {number}")
        texts = [str(link.get(f"{side}_port_node_description", "")) for side in _SIDES]
        if not any(AGGREGATION in text for text in texts):
            one, other = (_end(link, side, f"link {number}") for side in _SIDES)
            yield one, other


def _end(link: dict[str, object], side: str, where: str) -> _End:
    words = {key: link.get(f"{side}_port_{key}") for key in _WORDS}
    match = _PORT.fullmatch(str(words["name"]))
    if match is None:
        raise _refused(f"{side}_port_name is no GUID, `_` and number", where)
    guid, number = Guid(match[1].lower()), int(match[2])
    description = shorten(str(words["node_description"] or ""))
    label = f":{words['dname']}"
    if words["dname"] and description.endswith(label):
        return Port(guid, number), description.removesuffix(label) or guid, True
    # A port of an adapter is an adapter of its own, whatever number the card gives it.
    return Port(guid, 1), description, False


def _fabric(links: list[tuple[_End, _End]]) -> ParsedProbe | Refusal:
    switches: dict[Guid, FabricSwitch] = {}
    adapters: dict[Guid, FabricAdapter] = {}
    for port, name, is_switch in chain.from_iterable(links):
        guid = port.device
        if is_switch:
            ports = max(port.number, switches[guid].ports if guid in switches else 0)
            switches[guid] = FabricSwitch(guid, name, ports)
        else:
            adapters[guid] = FabricAdapter(guid, name)
    if both := sorted(switches.keys() & adapters.keys()):
        raise _refused(f"{switches[both[0]].name!r} ({both[0]}) is a switch and an adapter")
    cables: dict[Port, Cable] = {}
    for ends in links:
        one, other = sorted(port for port, _, _ in ends)
        cable = Cable(one, other, "")
        for port, name, _ in ends:
            if cables.setdefault(port, cable) != cable:
                raise _refused(f"port {port.number} of {name!r} ({port.device}) is in two links")
    if not switches:
        raise _refused("no link of a switch")
    unnamed = sum(not each.description for each in adapters.values())
    odd = [f"{counted(unnamed, 'adapter')} without a description"] if unnamed else []
    dump = FabricDump(
        tuple(each for _, each in sorted(switches.items())),
        tuple(each for _, each in sorted(adapters.items())),
        tuple(sorted(set(cables.values()))),
    )
    return ParsedProbe(FORMAT, (dump,), bounded(odd))


def _refused(what: str, where: str = WHOLE_TEXT) -> BadInputError:
    return BadInputError(Refusal(what, where, _FIX))
