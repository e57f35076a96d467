"""The cables that are seen, each with its ends in the words of the fabric.

From dumps of InfiniBand subnets: a switch port is its number, a host's port the adapter as its
driver calls it, `gpu-01 mlx5_0`. An adapter without a host name, and two that claim one name, are
`unnamed <guid>`: their cable is seen, whose it is is not. From the wires between nodes that a
master shows: a slot of a node. O(cables).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from topo.discovery.groups.fabric.adapter_join import host_of
from topo.facts.plans.plan import CablePlan, End, PlannedCable
from topo.model.fabric import FabricDump, Guid, Port, gbps

UNNAMED = "unnamed "
"""What a device begins with of which only the GUID is known."""


class SeenCable(NamedTuple):
    """A cable that is there; `rate` as the fabric says it, `4xNDR`, "" and 0 Gbit/s if unknown."""

    one: End
    other: End
    rate: str = ""
    gbps: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """Cables, and the devices that a source looked at: their other ports are empty."""

    cables: tuple[SeenCable, ...]
    devices: frozenset[str]
    hosts: frozenset[str] = field(default_factory=frozenset)
    """The devices that are hosts: a number is one of their adapters."""


def seen_in_dumps(dumps: Iterable[FabricDump]) -> Seen:
    """Return the cables of dumps of one fabric, one for each subnet; the newest word of a port."""
    newest_first = sorted(dumps, key=lambda each: (bool(each.missing), -each.made_at))
    names: dict[Guid, str] = {}
    adapters: dict[Guid, str] = {}
    cables: dict[tuple[Port, Port], str] = {}
    told: set[Guid | Port] = set()
    for dump in newest_first:
        newer = frozenset(told)
        told.update(each.guid for each in dump.switches)
        for switch in dump.switches:
            names.setdefault(switch.guid, switch.name)
        for adapter in dump.adapters:
            adapters.setdefault(adapter.guid, adapter.description)
        for one, other, rate in dump.cables:
            ends = {one, other, one.device, other.device}
            told.update((one, other))
            if newer.isdisjoint(ends):
                cables[one, other] = rate
    ends_of = _Ends(names, adapters)
    found = tuple(
        SeenCable(ends_of.at(one), ends_of.at(other), rate, gbps(rate))
        for (one, other), rate in cables.items()
    )
    return Seen(found, frozenset((*names.values(), *ends_of.hosts)), frozenset(ends_of.hosts))


class _Ends:
    """The words for ports; O(1) each."""

    def __init__(self, switches: dict[Guid, str], adapters: dict[Guid, str]) -> None:
        named = {guid: host_of(text) for guid, text in adapters.items()}
        claims = Counter(text for guid, text in adapters.items() if named[guid])
        twice = Counter(switches.values())
        self.switches = {
            guid: name if twice[name] == 1 else f"{name} {guid}" for guid, name in switches.items()
        }
        self.adapters: dict[Guid, End] = {}
        self.hosts: set[str] = set()
        for guid, text in adapters.items():
            if named[guid] and claims[text] == 1:
                host, _, device = text.partition(" ")
                self.adapters[guid] = End(host, device)
                self.hosts.add(host)

    def at(self, port: Port) -> End:
        if port.device in self.switches:
            return End(self.switches[port.device], str(port.number))
        named = self.adapters.get(port.device)
        if named is None:
            return End(f"{UNNAMED}{port.device}", str(port.number))
        return named if port.number == 1 else End(named.device, f"{named.port}/{port.number}")


def plan_of(seen: Seen) -> CablePlan:
    """Return what is seen as a plan: of a day on which it was right."""
    named = (
        each
        for each in seen.cables
        if not (each.one.device.startswith(UNNAMED) or each.other.device.startswith(UNNAMED))
    )
    return CablePlan(
        tuple(
            PlannedCable(each.one, each.other, line, each.gbps)
            for line, each in enumerate(named, 1)
        )
    )


class Names:
    """Joins the words of a plan with those of the fabric.

    Devices by their names, else in any case or by the first part of a full name, where that is one
    device's. Ports: `P61`, `swp61`, `etp61` are 61; `HCA-6` and `mlx5_5/P1` are mlx5_5, and so is
    the number 6 of a host whose adapters are called so.
    """

    def __init__(self, seen: Seen) -> None:
        self._devices = seen.devices
        self._folded = _sole(seen.devices, str.casefold)
        self._short = _sole(seen.devices, _short)
        self._numbered = {
            end.device
            for cable in seen.cables
            for end in cable[:2]
            if end.device in seen.hosts and end.port.startswith(("mlx5_", "HCA-"))
        }

    def key(self, end: End) -> End:
        """Return the end in words that are equal for equal ports. O(1)."""
        device = end.device
        if device not in self._devices:
            found = self._folded.get(device.casefold()) or self._short.get(_short(device))
            device = found or device
        return End(device, _port_key(end.port, device in self._numbered))


def _sole(names: Iterable[str], word_of: Callable[[str], str]) -> dict[str, str]:
    """Return the name behind each word that only one has."""
    words = Counter(map(word_of, names))
    return {word_of(name): name for name in names if words[word_of(name)] == 1}


def _short(name: str) -> str:
    return name.casefold().partition(".")[0]


def _port_key(text: str, numbers_adapters: bool) -> str:  # noqa: FBT001 - a fact of the device
    port = text.strip().casefold()
    if match := _HCA.fullmatch(port):
        return f"mlx5_{int(match[1]) - 1}"
    if match := _ADAPTER.fullmatch(port):
        return match[1] if match[2] in (None, "1") else f"{match[1]}/{match[2]}"
    if match := _NUMBER.fullmatch(port):
        number = match[1]
        if numbers_adapters and number.isdecimal():
            return f"mlx5_{int(number) - 1}"
        return number.lstrip("0") or "0"
    return port


_HCA = re.compile(r"hca-(\d{1,3})", re.ASCII)
_ADAPTER = re.compile(r"(mlx5_\d{1,3})(?:/p?(\d{1,3}))?", re.ASCII)
_NUMBER = re.compile(r"(?:p|port ?|etp|swp)?(\d{1,5}(?:[/s]\d{1,3})*)", re.ASCII)
