"""The cables of all dumps of a fabric, joined by the identities of devices.

Result: which adapters a switch has, and which other switches, over all dumps.

How: dumps are taken from the newest to the oldest, and after them those that were cut off. A cable
counts if no dump before describes its switches or has a cable in the same port of its adapter.

Why that is right: a dump shows one subnet whole, so what it says of a device is all that there is,
and an older dump of the same device is out of date. What no newer dump describes is of another
subnet, which the newer ones cannot reach: a leaf that lost its uplinks is in the dump of its own
hosts alone. Devices are known by GUID: every subnet numbers its devices (LID) from 1 again.

Cost: O(devices and cables of all dumps).

Example: the dump of 10:00 has leaves 1 and 2, that of 11:00 leaf 1 with one cable less. Leaf 1 is
as at 11:00, leaf 2 as at 10:00.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from topo.model.fabric import Cable, FabricDump, FabricSwitch, Guid, Port


class Uplink(NamedTuple):
    """A cable of an adapter: the switch and its port, and how fast it is; empty if unknown."""

    switch: Guid
    port: str
    rate: str


@dataclass(slots=True)
class Wires:
    """What the dumps say together.

    `adapters`: each with its description. `uplinks`: the cables of an adapter. `trunks`: for each
    switch the other switches that it has a cable to. `trunk_cables`: all between switches.
    """

    switches: dict[Guid, FabricSwitch] = field(default_factory=dict)
    adapters: dict[Guid, str] = field(default_factory=dict)
    uplinks: dict[Guid, list[Uplink]] = field(default_factory=lambda: defaultdict(list))
    trunks: dict[Guid, set[Guid]] = field(default_factory=lambda: defaultdict(set))
    trunk_cables: list[Cable] = field(default_factory=list)


def joined(dumps: Mapping[str, FabricDump]) -> Wires:
    """Return what the dumps say together, by the names of their files."""
    found = Wires()
    described: set[Guid | Port] = set()
    newest_first = sorted(dumps.items(), key=_newest_first)
    for _, dump in newest_first:
        newer = set(described)
        described.update(each.guid for each in dump.switches)
        for switch in dump.switches:
            found.switches.setdefault(switch.guid, switch)
        for adapter in dump.adapters:
            found.adapters.setdefault(adapter.guid, adapter.description)
        for cable in dump.cables:
            one, other, rate = cable
            ends = {one.device, other.device, one, other}
            described |= {end for end in (one, other) if end.device not in found.switches}
            if not newer.isdisjoint(ends):
                continue
            if one.device in found.switches and other.device in found.switches:
                found.trunk_cables.append(cable)
            for here, far in ((one, other), (other, one)):
                if far.device not in found.switches:
                    continue
                if here.device in found.switches:
                    found.trunks[here.device].add(far.device)
                else:
                    found.uplinks[here.device].append(Uplink(far.device, str(far.number), rate))
    return found


def _newest_first(item: tuple[str, FabricDump]) -> tuple[bool, float, str]:
    name, dump = item
    return bool(dump.missing), -dump.made_at, name
