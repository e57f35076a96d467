"""`lldpcli -f json0 show neighbors`: the switch ports at the other ends of a host's cables.

Both JSON forms of lldpd are read. In `json0` everything is a list of objects and interfaces have a
key `name`; in `json` what is there once stands alone, an interface is an object with one key, and
so is a chassis that has a name. Source: lldpd 1.0.16 (src/client/json_writer.c, display.c) and its
outputs for hosts in network namespaces.

What is read: the interface, the chassis and its name, the port. `age` is the time since a neighbour
was first heard, not since it was last, and says nothing about whether it is there still. Neighbours
that spoke another protocol than LLDP are left out: a switch that speaks two is listed twice.
"""

import json
import re
from collections.abc import Iterator, Mapping

from topo.facts.reading.text import WHOLE_TEXT, shorten, stated
from topo.model.errors import Refusal
from topo.model.ids import natural_key
from topo.model.machine import MAX_NEIGHBOURS, NicNeighbour
from topo.model.observation import ParsedProbe
from topo.model.words import counted

FORMAT = "lldpcli"
COMMAND = "lldpcli -f json0 show neighbors"
BEGINS = re.compile(r'^[ \t]{0,64}\{\s{0,64}"lldp"\s{0,64}:\s{0,64}[\[{]', re.MULTILINE)
_FIX = f"give the whole output of `{COMMAND}`"


def recognises(text: str) -> bool:
    """Return whether `text` has the beginning of lldpcli's JSON. O(len(text))."""
    return BEGINS.search(text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """Return the neighbours of each interface, by its name; none is an answer, too.

    Refused: what is no whole JSON (an output that was cut off), other shapes, the outputs of two
    hosts, more than `MAX_NEIGHBOURS`. O(len(text)).
    """
    begins = [match.start() for match in BEGINS.finditer(text)]
    if len(begins) != 1:
        what = f"there are {counted(len(begins), 'output')} of lldpcli"
        return Refusal(what, WHOLE_TEXT, "give the output of one host")
    try:
        document, _ = json.JSONDecoder().raw_decode(text[begins[0] :].lstrip(" \t"))
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else WHOLE_TEXT
        return Refusal("this is no whole JSON: it was cut off or changed", where, _FIX)
    warnings: list[str] = []
    try:
        found = sorted(set(_neighbours(document, warnings)), key=_order)
    except _UnknownShapeError as error:
        return Refusal(f"this is not of lldpcli: {error}", WHOLE_TEXT, _FIX)
    if len(found) > MAX_NEIGHBOURS:
        what = f"{len(found)} neighbours are more than {MAX_NEIGHBOURS}"
        return Refusal(what, WHOLE_TEXT, "give the output of one host")
    return stated(FORMAT, (tuple(found),), warnings)


class _UnknownShapeError(ValueError):
    """A value is where lldpcli writes none of its kind."""


def _neighbours(document: object, warnings: list[str]) -> Iterator[NicNeighbour]:
    """Yield each neighbour of an interface that spoke LLDP and said what it is."""
    others = nameless = 0
    for whole in _objects(document, "the document"):
        for lldp in _objects(whole.get("lldp"), "lldp"):
            for name, entry in _interfaces(lldp.get("interface", ())):
                if entry.get("via") != "LLDP":
                    others += 1
                elif (found := _neighbour(name, entry)) is None:
                    nameless += 1
                else:
                    yield found
    if others:
        warnings.append(f"{counted(others, 'neighbour')} by other protocols than LLDP left out")
    if nameless:
        warnings.append(f"{counted(nameless, 'neighbour')} without chassis or port left out")


def _interfaces(value: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield each interface with its entry: those of json0 by their `name`, else by their key."""
    for each in _objects(value, "interface"):
        if "via" in each:
            yield _text(each.get("name")), each
            continue
        for name, entry in each.items():
            for found in _objects(entry, "an interface"):
                yield shorten(name), found


def _neighbour(nic: str, entry: Mapping[str, object]) -> NicNeighbour | None:
    """Return the neighbour of an entry; None where it lacks chassis or port."""
    chassis = next(_objects(entry.get("chassis", ()), "chassis"), {})
    name = _text(chassis.get("name"))
    if "id" not in chassis and len(chassis) == 1:
        ((key, inner),) = chassis.items()
        name, chassis = shorten(key), next(_objects(inner, "chassis"), {})
    port = next(_objects(entry.get("port", ()), "port"), {})
    identity, of_port = _identity(chassis.get("id")), _identity(port.get("id"))
    if not (nic and identity and of_port):
        return None
    return NicNeighbour(
        nic=nic,
        chassis=identity,
        name=name,
        port=of_port.partition(" ")[2],
        port_description=_text(port.get("descr")),
    )


def _identity(value: object) -> str:
    """Return `mac 1c:34:da:00:01:00` of an id; empty where it is none."""
    found = next(_objects(value if value is not None else (), "id"), {})
    kind, text = _text(found.get("type")), _text(found.get("value"))
    if not (kind and text):
        return ""
    return f"{kind} {text.lower() if kind == 'mac' else text}"


def _text(value: object) -> str:
    """Return a text: `"LEAF01"`, or json0's `[{"value": "LEAF01"}]`; empty where there is none."""
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, dict):
        value = value.get("value")
    return shorten(value) if isinstance(value, str) else ""


def _objects(value: object, what: str) -> Iterator[Mapping[str, object]]:
    """Yield the objects of a list, or the one that stands alone."""
    for each in value if isinstance(value, list | tuple) else (value,):
        if not isinstance(each, dict):
            raise _UnknownShapeError(f"{what} is not an object")
        yield each


def _order(found: NicNeighbour) -> tuple[object, ...]:
    return natural_key(found.nic), found.chassis, natural_key(found.port), found.name
