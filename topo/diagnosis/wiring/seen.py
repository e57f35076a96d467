"""The cables that are seen, each with its ends in the words of the fabric.

From dumps of InfiniBand subnets: a switch port is its number, a host's port the adapter as its
driver calls it, `gpu-01 mlx5_0`. An adapter without a host name, and two that claim one name, are
`unnamed <guid>`: their cable is seen, whose it is is not. From the wires between nodes that a
master shows: a slot of a node. O(cables).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from topo.diagnosis.wiring.own_ports import NO_PORTS, OwnPort, OwnPorts
from topo.discovery.groups.fabric.adapter_join import host_of
from topo.facts.infiniband.dumps import is_dump, read_dump
from topo.facts.plans import read_plan
from topo.facts.plans.plan import CablePlan, End, PlannedCable
from topo.facts.reading.text import WHOLE_TEXT
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump, Guid, Port, gbps, newest_rate

_CUT_OFF = "a dump is cut off, or the fabric changed meanwhile"
_PORT_WORDS = 8192
"""Words for ports that are kept: a fabric has some hundred, in tens of thousands of cables."""
UNNAMED = "unnamed "
"""What a device begins with of which only the GUID is known."""


class SeenCable(NamedTuple):
    """A cable that is there; `rate` as the fabric says it, `4xNDR`, "" and 0 Gbit/s if unknown."""

    one: End
    other: End
    rate: str = ""
    gbps: float = 0.0


@dataclass(frozen=True, slots=True)
class SeenCables:
    """Cables, and the devices that a source looked at: their other ports are empty.

    Of `hosts`, whose adapters have names, only the ports of `kinds` were looked at: an end whose
    port is the letters that its name begins with, "" of one that is a number. The hosts themselves
    say of the ports `dark` that nothing is there, and of `lit` that something is. `notes` say in
    words what the sources may lack.
    """

    cables: tuple[SeenCable, ...]
    devices: frozenset[str]
    hosts: frozenset[str] = field(default_factory=frozenset)
    kinds: frozenset[End] = field(default_factory=frozenset)
    dark: frozenset[End] = field(default_factory=frozenset)
    lit: frozenset[End] = field(default_factory=frozenset)
    notes: tuple[str, ...] = ()

    def covers(self, end: End) -> bool:
        """Return whether a cable at this port would be known; the words are those of `EndNames`."""
        return end.device in self.devices or kind_of(end) in self.kinds


def kind_of(end: End) -> End:
    """Return the device, and the letters that its port begins with: `mlx` of `mlx5_0`."""
    return End(end.device, _LETTERS.match(end.port.casefold())[0])  # type: ignore[index]


_LETTERS = re.compile("[a-z]*", re.ASCII)


def is_number(end: End) -> bool:
    """Return whether a port is a number, as of a switch; adapters of hosts have names."""
    return end.port[:1].isdigit()


def seen_in_dumps(dumps: Iterable[FabricDump], own: OwnPorts = NO_PORTS) -> SeenCables:
    """Return the cables of dumps of one fabric, one for each subnet; the newest word of a port.

    What hosts see of their `own` ports is newer than any dump.
    """
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
    # A node may claim to have a switch in it.
    ports = {port: each for port, each in own.by_guid.items() if port.device not in names}
    ends_of = _Ends(names, adapters, ports)
    found = tuple(
        SeenCable(ends_of.at(one), ends_of.at(other), *_rate(rate, (one, other), ports))
        for (one, other), rate in cables.items()
        if all(ports[end].is_up for end in (one, other) if end in ports)
    )
    kinds = frozenset(map(kind_of, ends_of.adapters.values()))
    named = [(each.is_up, {ends_of.at(port), *each.ends}) for port, each in ports.items()]
    dark = own.dark.union(*(ends for is_up, ends in named if not is_up))
    lit = frozenset[End]().union(*(ends for is_up, ends in named if is_up))
    switches, hosts = frozenset(names.values()), frozenset(ends_of.hosts)
    lacks = sorted({each.missing for each in newest_first if each.missing})
    notes = tuple(f"{_CUT_OFF}: {each}; what it lacks may be there all the same" for each in lacks)
    return SeenCables(found, switches, hosts, kinds, dark, lit, notes)


def _rate(rate: str, ends: tuple[Port, Port], ports: Mapping[Port, OwnPort]) -> tuple[str, float]:
    """Return how fast a cable is: as the slower of the hosts at its ends says, else the dump."""
    said = (ports[end].gbps for end in ends if end in ports)
    newest = newest_rate(rate, min(filter(None, said), default=0.0))
    return newest, gbps(newest)


class _Ends:
    """The words for ports; O(1) each."""

    def __init__(
        self,
        switches: dict[Guid, str],
        adapters: dict[Guid, str],
        ports: Mapping[Port, OwnPort],
    ) -> None:
        by_worker = {port.device: each.ends for port, each in ports.items()}
        nodes = {short_name(end.device) for ends in by_worker.values() for end in ends}
        named = {guid: host_of(text) for guid, text in adapters.items()}
        claims = Counter(text for guid, text in adapters.items() if named[guid])
        twice = Counter(switches.values())
        self.switches = {
            guid: name if twice[name] == 1 else f"{name} {guid}" for guid, name in switches.items()
        }
        self.adapters: dict[Guid, End] = {}
        for guid, text in adapters.items():
            ends = by_worker.get(guid, ())
            host, is_own = short_name(named[guid]), {short_name(end.device) for end in ends}
            if ends and (claims[text] != 1 or (host in nodes and host not in is_own)):
                self.adapters[guid] = End(ends[0].device, ends[0].port.partition("/")[0])
            elif named[guid] and claims[text] == 1:
                self.adapters[guid] = End(*text.split(" ", 1))
        several = Counter(self.adapters.values())
        self.adapters = {guid: end for guid, end in self.adapters.items() if several[end] == 1}
        self.hosts = {end.device for end in self.adapters.values()}

    def at(self, port: Port) -> End:
        if port.device in self.switches:
            return End(self.switches[port.device], str(port.number))
        named = self.adapters.get(port.device)
        if named is None:
            return End(f"{UNNAMED}{port.device}", str(port.number))
        return named if port.number == 1 else End(named.device, f"{named.port}/{port.number}")


def joined(*sources: SeenCables) -> SeenCables:
    """Return what several sources see; of a port that two know the first counts. O(cables).

    Also where they call it by two words: a liar must not make a refusal of what others see.
    """
    every = SeenCables(
        tuple(each for seen in sources for each in seen.cables),
        frozenset[str]().union(*(seen.devices for seen in sources)),
        frozenset[str]().union(*(seen.hosts for seen in sources)),
        frozenset[End]().union(*(seen.kinds for seen in sources)),
        frozenset[End]().union(*(seen.dark for seen in sources)),
        frozenset[End]().union(*(seen.lit for seen in sources)),
        tuple(note for seen in sources for note in seen.notes),
    )
    names, cables, taken = EndNames(every), list[SeenCable](), set[End]()
    for seen in sources:
        keyed = [(each, (names.key(each.one), names.key(each.other))) for each in seen.cables]
        new = [(each, ends) for each, ends in keyed if taken.isdisjoint(ends)]
        taken.update(end for _, ends in new for end in ends)
        cables += (each for each, _ in new)
    return replace(every, cables=tuple(cables))


def read_plan_or_dump(text: str) -> CablePlan | Refusal:
    """Return the plan of a text; of a dump it is what was seen then. O(size).

    A dump that was cut off would be a smaller plan, and is refused.
    """
    if not is_dump(text):
        return read_plan(text)
    dump = read_dump(text)
    if isinstance(dump, Refusal):
        return dump
    if dump.missing:
        return Refusal(f"{_CUT_OFF}: {dump.missing}", WHOLE_TEXT, "give a whole dump as a plan")
    return plan_of(seen_in_dumps([dump]))


def plan_of(seen: SeenCables) -> CablePlan:
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


def plug(end: End) -> End:
    """Return an end in words that are equal for equal ports of a device of this name."""
    return End(end.device, port_key(end.port, numbers_adapters=False))


def folded(end: End) -> End:
    """Return an end in words by which ends of a plan and of what is seen are mostly equal."""
    return End(short_name(end.device), port_key(end.port, numbers_adapters=False))


def planned_far_ends(plan: CablePlan) -> dict[End, End]:
    """Return for each end of a plan the other end of its cable, both folded. O(cables)."""
    found: dict[End, End] = {}
    for planned in plan.cables:
        one, other = folded(planned.one), folded(planned.other)
        found |= {one: other, other: one}
    return found


class EndNames:
    """Joins the words of a plan with those of the fabric.

    Devices by their names, else in any case, or by the first part of a full name where that is one
    device's and either side has no more of it. Ports: `P61`, `swp61`, `etp61` are 61; `HCA-6` and
    `mlx5_5/P1` are mlx5_5, and so is the number 6 of a host whose adapters are called so and that
    has no ports with numbers.
    """

    def __init__(self, seen: SeenCables) -> None:
        ends = {end for cable in seen.cables for end in cable[:2]} | seen.dark | seen.lit
        self._devices = seen.devices | {each.device for each in ends | seen.kinds}
        self._folded = sole(self._devices, str.casefold)
        self._short = sole(self._devices, short_name)
        self._numbered = {
            end.device
            for end in ends
            if end.device in seen.hosts and end.port.startswith(("mlx5_", "HCA-"))
        } - {each.device for each in seen.kinds if not each.port}

    def key(self, end: End) -> End:
        """Return the end in words that are equal for equal ports. O(1)."""
        device = end.device
        if device not in self._devices:
            found = self._folded.get(device.casefold()) or self._short.get(short_name(device), "")
            is_other = "." in device and "." in found and device.casefold() != found.casefold()
            device = device if is_other else found or device
        return End(device, port_key(end.port, numbers_adapters=device in self._numbered))


def sole(names: Iterable[str], word_of: Callable[[str], str]) -> dict[str, str]:
    """Return the name behind each word that only one has."""
    words = Counter(map(word_of, names))
    return {word_of(name): name for name in names if words[word_of(name)] == 1}


def short_name(name: str) -> str:
    """Return a device's name in small letters, without its domain."""
    return name.casefold().partition(".")[0]


@lru_cache(_PORT_WORDS)
def port_key(text: str, *, numbers_adapters: bool) -> str:
    """Return a port in words that are equal for equal ports of a device."""
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
