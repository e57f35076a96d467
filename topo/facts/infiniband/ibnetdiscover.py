"""`ibnetdiscover`: every switch, adapter and cable of one InfiniBand subnet.

Result: a `FabricDump`, or a refusal with the line that cannot be read.

How: a block describes a device: lines `key=value`, a header (`Switch 65 "S-<guid>" # "<name>" …`),
and a line for each of its ports that has a cable: `[1] "H-<guid>"[1](<port>) # "<name>" lid 1
4xNDR`. A cable between two devices is in both of their blocks. The part of a switch that sums up
messages (an aggregation node) is listed as an adapter; it is left out, since no host has it.

Why a cut text does not pass for a small fabric: every device that a block names has a block of its
own, every cable is in both, and no switch is found but by a cable. What differs is counted in
`missing`. What a cut text says is true nevertheless: a switch's block names all adapters at it.

Cost: O(len(text)); a dump of 80,000 adapters has some 32 MB and takes about two seconds.

Example: `Switch 65 "S-a…"` with `[1] "H-1…"[1]` and `Ca 1 "H-1…"` with `[1](1…) "S-a…"[1]`: one
switch, one adapter, one cable. Without the second block the adapter is known by the switch alone.

Source: infiniband-diags, `ibnetdiscover.c`, versions 44 and 65, whose lines are the same.
"""

import re
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from sys import intern

from topo.facts.reading.text import WHOLE_TEXT, bounded, shorten
from topo.model.errors import Refusal
from topo.model.fabric import Cable, FabricAdapter, FabricDump, FabricSwitch, Guid, Port, gbps
from topo.model.observation import ParsedProbe
from topo.model.words import counted

FORMAT = "ibnetdiscover"
COMMAND = "ibnetdiscover"
TITLE: re.Pattern[str] = re.compile(r"^# Topology file: generated on (.{1,60})$", re.MULTILINE)
_HEADER: re.Pattern[str] = re.compile(
    r'(?:Switch|Ca|Rt)[ \t]+([0-9]{1,4})[ \t]+"([SHR])-([0-9a-f]{1,16})"[ \t]*#[ \t]*"(.*)"'
)
_NUMBER = r"\[([0-9]{1,4})\](?:\[ext [0-9]{1,4}\])?(?:\([0-9a-f]{1,16}\))?[ \t]*"
"""A port: `-g` adds the number that is printed on the chassis, adapters have a GUID for each."""
_PORT = re.compile(
    rf'{_NUMBER}"([SHR])-([0-9a-f]{{1,16}})"{_NUMBER}'
    r'#[ \t]*(?:lid [0-9]+ lmc [0-9]+ )?"(.*)" lid [0-9]+ ([0-9?]{1,2}x?[A-Z0-9?]{1,8})'
)
_RECOGNISED = re.compile(
    r'^# Topology file: generated on|^(?:Switch|Ca|Rt)[ \t]+[0-9]+[ \t]+"[SHR]-', re.MULTILINE
)
_SYSTEM = re.compile(r"sysimgguid=0x([0-9a-f]{1,16})")
_PASSED_OVER = re.compile(
    r"#|(?:vendid|devid|switchguid|caguid|rtguid)=0x[0-9a-f]"
    r"|Non-Chassis Nodes|Chassis [0-9]|DR path "
)
"""Comments, ids that are not used, titles of `-g`, lines that `-s` mixes in."""
_SWITCH_NAME = re.compile(r"[^;]*;([^:;]{1,200})(?::.*)?")
"""`MF0;ib-leaf-01:MQM9700/U1` is what the driver of a managed switch makes of its name."""
_HEADS = frozenset("SCR")
_AGGREGATION = "Aggregation Node"
_FIX = f"give the output of `{COMMAND}` without -p, -l, -H, -S and -R"
_ONE_DUMP = "give each dump as a file of its own"
_BLOCKLESS = Refusal("no block of a switch or an adapter", WHOLE_TEXT, _FIX)
_TITLES = {"S": "switch", "H": "adapter", "R": "router"}


@dataclass(slots=True)
class _Block:
    """A device with a block: S, H or R, what it calls itself, and what is at its ports.

    `system` is the GUID of the machine that it is a part of, `line` where its block begins.
    """

    kind: str
    name: str
    ports: int
    system: str
    line: int
    ends: dict[int, tuple[Port, str]] = field(default_factory=dict)


@dataclass(slots=True)
class _Described:
    """The devices that have a block, those that stand twice, and those that blocks name."""

    devices: dict[Guid, _Block] = field(default_factory=dict)
    repeated: list[tuple[Guid, _Block]] = field(default_factory=list)
    named: dict[Guid, tuple[str, str]] = field(default_factory=dict)
    _guids: dict[str, Guid] = field(default_factory=dict)
    """Each identity once: it stands in four lines, and 80,000 of them are kept."""

    def guid(self, digits: str) -> Guid:
        """Return the identity that these digits write, of which leading zeros may be missing."""
        found = self._guids.get(digits)
        if found is None:
            found = self._guids[digits] = Guid(digits.zfill(16))
        return found

    def add(self, guid: Guid, device: _Block) -> None:
        if guid in self.devices:
            self.repeated.append((guid, device))
        else:
            self.devices[guid] = device


def recognises(text: str) -> bool:
    """Return whether `text` has a title or a block of the tool. O(len(text))."""
    return _RECOGNISED.search(text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """Return the fabric that the text describes; what is odd about it in warnings.

    Refused: a line that is none of the tool, two blocks of one device that differ, no device.
    """
    blocks = _blocks(text)
    if isinstance(blocks, Refusal):
        return blocks
    if not blocks.devices:
        return _BLOCKLESS
    if (refusal := _contradiction(blocks)) is not None:
        return refusal
    warnings: list[str] = []
    if blocks.repeated:
        warnings.append(f"{counted(len(blocks.repeated), 'block')} stand twice, alike")
    dump = _dump(text, blocks, warnings)
    if dump.missing:
        warnings.append(f"the dump is cut off, or the fabric changed meanwhile: {dump.missing}")
    return ParsedProbe(FORMAT, (dump,), bounded(warnings))


def switch_name(description: str) -> str:
    """Return the name in a switch's description: `ib-leaf-01` of `MF0;ib-leaf-01:MQM9700/U1`."""
    match = _SWITCH_NAME.fullmatch(description)
    return match.group(1) if match else description


def _blocks(text: str) -> _Described | Refusal:
    """Return what the lines say; O(len(text))."""
    found, device, system = _Described(), None, ""
    for number, line in enumerate(text.split("\n"), start=1):
        first = line[:1]
        if first == "[":
            match = _PORT.match(line)
            if match is None or device is None:
                return _unread(number)
            port, kind, far, far_port, name, rate = match.groups()
            guid = found.guid(far)
            end = Port(guid, int(far_port)), intern(rate)
            if device.ends.setdefault(int(port), end) != end:
                what = f"port {port} of {device.name!r} has two far ends"
                return Refusal(what, f"line {number}", _ONE_DUMP)
            if guid not in found.named:
                found.named[guid] = (kind, name)
        elif first in _HEADS and (match := _HEADER.match(line)):
            ports, kind, digits, name = match.groups()
            device, system = _Block(kind, shorten(name), int(ports), system, number), ""
            found.add(found.guid(digits), device)
        elif first == "s" and (match := _SYSTEM.match(line)):
            system = match.group(1).zfill(16)
        elif first and not _PASSED_OVER.match(line):
            return _unread(number)
    return found


def _unread(number: int) -> Refusal:
    """Return the refusal of a line, without its words: the file may be a secret of somebody."""
    return Refusal(f"this line is none of {FORMAT}", f"line {number}", _FIX)


def _contradiction(blocks: _Described) -> Refusal | None:
    """Return the first device with two blocks that differ; None without one."""
    for guid, again in blocks.repeated:
        first = blocks.devices[guid]
        if (again.kind, again.ends) != (first.kind, first.ends):
            what = f"{again.name!r} has another block in line {first.line}, and they differ"
            return Refusal(what, f"line {again.line}", _ONE_DUMP)
    return None


def _dump(text: str, blocks: _Described, warnings: list[str]) -> FabricDump:
    """Return the dump without aggregation nodes; what contradicts itself goes to the warnings."""
    devices = blocks.devices
    switches = {g: d for g, d in devices.items() if d.kind == "S"}
    inside = {g for g, d in devices.items() if d.kind == "H" and d.system in switches}
    inside |= {g for g, (_, name) in blocks.named.items() if _AGGREGATION in name}
    cables, halves = _cables(devices, inside, warnings)
    adapters = {g: name for g, (kind, name) in blocks.named.items() if kind == "H"}
    adapters |= {g: d.name for g, d in devices.items() if d.kind == "H"}
    return FabricDump(
        switches=tuple(
            FabricSwitch(g, switch_name(d.name) or g, d.ports) for g, d in sorted(switches.items())
        ),
        adapters=tuple(
            FabricAdapter(g, name) for g, name in sorted(adapters.items()) if g not in inside
        ),
        cables=cables,
        made_at=_made_at(text),
        missing=_missing(blocks, halves),
    )


def _cables(
    devices: Mapping[Guid, _Block], inside: AbstractSet[Guid], warnings: list[str]
) -> tuple[tuple[Cable, ...], int]:
    """Return each cable once, in order, and how many are in one of two blocks only.

    A cable whose ends name others is none: it was moved while the tool looked.
    """
    found: list[Cable] = []
    halves = moved = 0
    for guid in sorted(devices.keys() - inside):
        for number, (far, rate) in sorted(devices[guid].ends.items()):
            if far.device in inside:
                continue
            other = devices.get(far.device)
            back = other.ends.get(far.number) if other is not None else None
            here = Port(guid, number)
            if back is None:
                halves += other is not None
                found.append(Cable(min(here, far), max(here, far), rate))
            elif back[0] != here:
                moved += 1
            elif here < far:  # seen from the other end, it is the same cable
                slower = rate if rate == back[1] else min(rate, back[1], key=gbps)
                found.append(Cable(here, far, slower))
    if moved:
        warnings.append(f"{counted(moved, 'port')} name a far end that names another one")
    return tuple(sorted(found)), halves


def _missing(blocks: _Described, halves: int) -> str:
    """Return what a whole dump would have, in words; empty where nothing is missing."""
    absent = Counter(kind for guid, (kind, _) in blocks.named.items() if guid not in blocks.devices)
    found = [
        f"{counted(number, _TITLES[kind])} named without a block"
        for kind, number in sorted(absent.items())
    ]
    if lonely := sum(each.kind == "S" and not each.ends for each in blocks.devices.values()):
        found.append(f"{counted(lonely, 'switch')} without a cable")
    if halves:
        found.append(f"{counted(halves, 'cable')} in one of two blocks")
    return "; ".join(found)


def _made_at(text: str) -> int:
    """Return the time in the title as seconds since 1970; 0 without one that can be read."""
    match = TITLE.search(text)
    try:
        shown = match.group(1).strip() if match else ""
        return int(datetime.strptime(f"{shown} +0000", "%a %b %d %H:%M:%S %Y %z").timestamp())
    except ValueError:
        return 0
