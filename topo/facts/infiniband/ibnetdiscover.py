"""`ibnetdiscover`: every switch, adapter and cable of one InfiniBand subnet.

Result: a `FabricDump`, or a refusal with the line that cannot be read.

How: a block describes a device: lines `key=value`, a header (`Switch 65 "S-<guid>" # "<name>" …`),
and a line for each of its ports that has a cable: `[1] "H-<guid>"[1](<port>) # "<name>" lid 1
4xNDR`. A cable between two devices is in both of their blocks. The part of a switch that sums up
messages (an aggregation node) is listed as an adapter; it is left out, since no host has it.

Why a cut text does not pass for a small fabric: every device that a block names has a block of its
own, every cable is in both, and no switch is found but by a cable. What differs is counted in
`missing`. What a cut text says is true nevertheless: a switch's block names all adapters at it.

Cost: O(len(text)). A dump of 80,000 adapters and as many cables between switches has 40 MB and
takes about one and a half seconds (`bench/discovery/fabric_dump.py`): one search looks at all lines
of a block, and what is kept for a line is a plain tuple, which the collector need not look at.

Example: `Switch 65 "S-a…"` with `[1] "H-1…"[1]` and `Ca 1 "H-1…"` with `[1](1…) "S-a…"[1]`: one
switch, one adapter, one cable. Without the second block the adapter is known by the switch alone.

Source: infiniband-diags, `ibnetdiscover.c`, versions 44 and 65, whose lines are the same.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from sys import intern

from topo.facts.reading.text import WHOLE_TEXT, bounded, shorten
from topo.facts.reading.windows import WINDOW, find_all, find_first
from topo.model.errors import Refusal
from topo.model.fabric import Cable, FabricAdapter, FabricDump, FabricSwitch, Guid, Port, gbps
from topo.model.observation import ParsedProbe
from topo.model.words import counted

FORMAT = "ibnetdiscover"
COMMAND = "ibnetdiscover"
TITLE: re.Pattern[str] = re.compile(r"^# Topology file: generated on .{1,60}$", re.MULTILINE)
"""Its time is of the clock on the wall where the tool ran, without the zone: it orders nothing."""
_NUMBER = r"\[([0-9]{1,4})\](?:\[ext [0-9]{1,4}\])?(?:\([0-9a-f]{1,16}\))?[ \t]*"
"""A port: `-g` adds the number that is printed on the chassis, adapters have a GUID for each."""
_PORT = re.compile(
    rf'\n{_NUMBER}"([SHR])-([0-9a-f]{{1,16}})"{_NUMBER}'
    r'#[ \t]*(?:lid [0-9]+ lmc [0-9]+ )?"(.*)" lid [0-9]+ ([0-9?]{1,2}x?[A-Z0-9?]{1,8})'
)
_HEADER = re.compile(
    r"\n(?:sysimgguid=0x([0-9a-f]{1,16})\n(?:switch|ca|rt)guid=.*\n)?"
    r'(?:Switch|Ca|Rt)[ \t]+([0-9]{1,4})[ \t]+"([SHR])-([0-9a-f]{1,16})"[ \t]*#[ \t]*"(.*)"'
)
_PORT_MARK = "\n["
_UNREAD = re.compile(
    r"\n(?!\n|\Z|\[|#|(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=0x[0-9a-f]"
    rf"|Non-Chassis Nodes|Chassis [0-9]|DR path |{_HEADER.pattern[2:]})"
)
"""A line that is none of the tool, but for those of ports, which are counted block by block.

Passed over are comments, ids that are not used, titles of `-g` and lines that `-s` mixes in.
"""
_RECOGNISED = re.compile(
    r'^# Topology file: generated on|^(?:Switch|Ca|Rt)[ \t]+[0-9]+[ \t]+"[SHR]-', re.MULTILINE
)
_SWITCH_NAME = re.compile(r"[^;]*;([^:;]{1,200})(?::.*)?")
"""`MF0;ib-leaf-01:MQM9700/U1` is what the driver of a managed switch makes of its name."""
AGGREGATION = "Aggregation Node"
"""In the description of the part of a switch that sums up messages."""
_FIX = f"give the lines of `{COMMAND}` as it prints them without -p, -l, -H, -S, -R and --diff"
_AGAIN = f"let `{COMMAND}` end, and put its output there when it is whole"
_ONE_DUMP = "give each dump as a file of its own"
_BLOCKLESS = Refusal("no block of a switch or an adapter", WHOLE_TEXT, _FIX)
_Cabled = Sequence[tuple[str, ...]]
"""The groups of each line of a port."""
_TITLES = {"S": "switch", "H": "adapter", "R": "router"}


@dataclass(slots=True)
class _Block:
    """A device with a block: S, H or R, what it calls itself, and what is at its ports.

    `system` is the GUID of the machine that it is a part of, `begin` where its header stands. At
    the end of a cable are a device, its port and the rate.
    """

    kind: str
    name: str
    ports: int
    system: str
    begin: int
    ends: dict[int, tuple[Guid, int, str]] = field(default_factory=dict)


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
    return find_first(_RECOGNISED, text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """Return the fabric that the text describes; what is odd about it in warnings.

    Refused: a line that is none of the tool, two blocks of one device that differ, no device.
    """
    blocks = _blocks(text)
    if isinstance(blocks, Refusal):
        return blocks
    if not blocks.devices:
        return _BLOCKLESS
    if (refusal := _contradiction(text, blocks)) is not None:
        return refusal
    warnings: list[str] = []
    if blocks.repeated:
        warnings.append(f"{counted(len(blocks.repeated), 'block')} stand twice, alike")
    dump = _dump(blocks, warnings)
    if dump.missing:
        warnings.append(f"the dump is cut off, or the fabric changed meanwhile: {dump.missing}")
    return ParsedProbe(FORMAT, (dump,), bounded(warnings))


def switch_name(description: str) -> str:
    """Return the name in a switch's description: `ib-leaf-01` of `MF0;ib-leaf-01:MQM9700/U1`."""
    match = _SWITCH_NAME.fullmatch(description)
    return match.group(1) if match else description


def _blocks(text: str) -> _Described | Refusal:
    """Return what the lines say; O(len(text))."""
    lines = "\n" + text  # each pattern begins with the end of a line, which is found fast
    if (unread := find_first(_UNREAD, lines)) is not None:
        return _unread(text, unread.start())
    starts = [head.start() for head in find_all(_HEADER, lines)]
    if (stray := lines.find(_PORT_MARK, 0, starts[0] if starts else None)) >= 0:
        return _unread(text, stray)
    found = _Described()
    guid_of, named = found.guid, found.named
    block_ends = (*starts[1:], len(lines))
    for head, end in zip(find_all(_HEADER, lines), block_ends, strict=False):
        system, ports, kind, digits, name = head.groups()
        begin = head.end()
        cabled = _port_lines(lines, begin, end)
        if len(cabled) != lines.count(_PORT_MARK, begin, end):
            return _unread(text, _unread_port(lines, begin))
        owner = system.zfill(16) if system else ""
        device = _Block(kind, shorten(name), int(ports), owner, head.start(2))
        found.add(guid_of(digits), device)
        ends = device.ends
        for port, far_kind, far_digits, far_port, far_name, rate in cabled:
            far = guid_of(far_digits)
            ends[int(port)] = far, int(far_port), intern(rate)
            if far not in named:
                named[far] = far_kind, far_name
        if len(ends) < len(cabled) and (refusal := _repeated_port(text, device, cabled)):
            return refusal
    return found


def _port_lines(lines: str, begin: int, end: int) -> Sequence[tuple[str, ...]]:
    """Return the groups of each line of a port in a block, which has some kB of text."""
    if end - begin <= WINDOW:
        return _PORT.findall(lines, begin, end)
    return [match.groups() for match in find_all(_PORT, lines, begin, end)]


def _repeated_port(text: str, device: _Block, cabled: _Cabled) -> Refusal | None:
    """Return the refusal of a device of which a port names two far ends; None without one."""
    for port, _, digits, far_port, _, rate in cabled:
        far, number, kept_rate = device.ends[int(port)]
        if (far, number, kept_rate) != (digits.zfill(16), int(far_port), rate):
            what = f"port {port} of {device.name!r} has two far ends"
            return Refusal(what, _line(text, device.begin), _ONE_DUMP)
    return None


def _unread_port(lines: str, begin: int) -> int:
    """Return where the first line of a port stands from there that cannot be read."""
    while _PORT.match(lines, found := lines.index(_PORT_MARK, begin)):
        begin = found + 1
    return found


def _unread(text: str, position: int) -> Refusal:
    """Return the refusal of a line, without its words: the file may be a secret of somebody.

    The tool ends its last line: a text that does not was cut off there.
    """
    if position > 0 and "\n" not in text[position:]:
        return Refusal("the text ends in the middle of this line", _line(text, position), _AGAIN)
    return Refusal(f"this line is none of {FORMAT}", _line(text, position), _FIX)


def _line(text: str, position: int) -> str:
    """Return where a character is, as refusals say it."""
    return f"line {text.count(chr(10), 0, position) + 1}"


def _contradiction(text: str, blocks: _Described) -> Refusal | None:
    """Return the first device with two blocks that differ; None without one."""
    for guid, again in blocks.repeated:
        first = blocks.devices[guid]
        if (again.kind, again.ends) != (first.kind, first.ends):
            where = _line(text, first.begin)
            what = f"{again.name!r} has another block in {where}, and they differ"
            return Refusal(what, _line(text, again.begin), _ONE_DUMP)
    return None


def _dump(blocks: _Described, warnings: list[str]) -> FabricDump:
    """Return the dump without aggregation nodes; what contradicts itself goes to the warnings."""
    devices = blocks.devices
    switches = {g: d for g, d in devices.items() if d.kind == "S"}
    inside = {g for g, d in devices.items() if d.kind == "H" and d.system in switches}
    inside |= {g for g, (_, name) in blocks.named.items() if AGGREGATION in name}
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
        for number, (far, far_port, rate) in sorted(devices[guid].ends.items()):
            other = devices.get(far)
            back = other.ends.get(far_port) if other is not None else None
            if far in inside:
                continue
            if back is None:
                halves += other is not None
                ends = Port(guid, number), Port(far, far_port)
                found.append(Cable(min(ends), max(ends), rate))
            elif back[0] != guid or back[1] != number:
                moved += 1
            elif guid < far or (guid == far and number < far_port):
                # Seen from the other end, it is the same cable.
                slower = rate if rate == back[2] else min(rate, back[2], key=gbps)
                found.append(Cable(Port(guid, number), Port(far, far_port), slower))
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
