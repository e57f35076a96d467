"""Cables between switches that are missing or slow, judged by those beside them, without a plan.

Result: sentences about leaves that have fewer cables to switches above than most leaves of the same
group around them, about cables that are slower than most of a switch at one of their ends, and
about groups of leaves of which nobody can say what they are under.

Why that is right: leaves beside each other are cabled alike, and so are the ports of one switch
that lead to switches. "Most" is more than half, of three at least; where no number has so many
nothing is usual, and nobody is told. A group of leaves is counted where most of its cables are: if
those that lead elsewhere and those that it lacks are together as many, it may be there.

Cost: O(cables between switches and leaves).

Example: three of the four leaves of a pod have 18 cables to its spines, the fourth has 14: told.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from topo.discovery.groups.fabric.switch_tiers import SwitchPath, Trunk
from topo.discovery.groups.fabric.wires import Wires
from topo.model.fabric import Cable, Guid, gbps
from topo.model.ids import natural_key
from topo.model.words import counted

_T = TypeVar("_T", bound=Hashable)
_LEAST = 3


def weak_trunks(wires: Wires, paths: Iterable[SwitchPath]) -> tuple[str, ...]:
    """Return a sentence for each leaf and cable, in their order."""
    beside: defaultdict[SwitchPath, set[Guid]] = defaultdict(set)
    for path in set(paths):
        beside[path[:-1]] |= path[-1].switches
    of_switch = _by_switch(wires)
    told = (*_short(wires, beside.values(), of_switch), *_slow(wires, of_switch))
    return tuple(sorted(told, key=natural_key))


def unsure_leaves(
    wires: Wires, paths: Iterable[SwitchPath], astray: Iterable[Trunk]
) -> tuple[str, ...]:
    """Return a sentence for each group of leaves that may as well be where its `astray` cables are.

    O(cables between switches).
    """
    away = {frozenset(pair) for pair in astray}
    every = set(paths) if away else set()
    leaves = set[Guid]().union(*(path[-1].switches for path in every))
    of_switch = _by_switch(wires)
    found: defaultdict[SwitchPath, dict[SwitchPath, _Uplinks]] = defaultdict(dict)
    for path in every:
        ends = [(each, _far(c, each)) for each in path[-1].switches for c in of_switch[each]]
        far = [frozenset(pair) for pair in ends if pair[1] not in leaves]
        found[path[:-1]][path] = _Uplinks(len(far), sum(pair in away for pair in far))
    told: list[str] = []
    for uplinks in found.values():
        most = usual(each.number for each in uplinks.values()) or 0
        for path, (number, elsewhere) in uplinks.items():
            lost = max(0, most - number)
            if elsewhere and elsewhere + lost >= number - elsewhere:
                name = min((wires.switches[e].name for e in path[-1].switches), key=natural_key)
                lacks = f" and lacks {lost}" if lost else ""
                text = f"{name} has {elsewhere} of {counted(number, 'cable')} elsewhere than most"
                told.append(f"{text}{lacks}: what it is under is not certain")
    return tuple(sorted(told, key=natural_key))


class _Uplinks(NamedTuple):
    """The cables of a group of leaves to switches above, and how many of them are astray."""

    number: int
    elsewhere: int


def _by_switch(wires: Wires) -> defaultdict[Guid, list[Cable]]:
    found: defaultdict[Guid, list[Cable]] = defaultdict(list)
    for cable in wires.trunk_cables:
        found[cable.one.device].append(cable)
        found[cable.other.device].append(cable)
    return found


def _short(
    wires: Wires, beside: Iterable[set[Guid]], of_switch: Mapping[Guid, list[Cable]]
) -> Iterator[str]:
    every = list(beside)
    leaves = set[Guid]().union(*every)
    for group in every:
        number = {
            leaf: sum(_far(cable, leaf) not in leaves for cable in of_switch.get(leaf, ()))
            for leaf in group
        }
        most = usual(number.values())
        if most is not None:
            for leaf, count in number.items():
                if 0 < count < most:
                    has = f"{wires.switches[leaf].name} has {counted(count, 'cable')}"
                    yield f"{has} to switches above, most beside it {most}"


def _slow(wires: Wires, of_switch: Mapping[Guid, list[Cable]]) -> Iterator[str]:
    slow: dict[Cable, str] = {}
    for cables in of_switch.values():
        rates = {cable.rate for cable in cables}
        most = usual(cable.rate for cable in cables) if len(rates) > 1 else None
        if most is not None:
            slow |= {each: most for each in cables if 0 < gbps(each.rate) < gbps(most)}
    for cable, most in slow.items():
        one, other = (
            f"{wires.switches[end.device].name} port {end.number}" for end in (cable[0], cable[1])
        )
        yield f"{one} to {other} runs at {cable.rate}, most others there at {most}"


def _far(cable: Cable, here: Guid) -> Guid:
    return cable.other.device if cable.one.device == here else cable.one.device


def usual(values: Iterable[_T]) -> _T | None:
    """Return the value that more than half have; None where none has, or there are too few."""
    counts = Counter(values)
    for value, number in counts.most_common(1):
        if number >= _LEAST and 2 * number > counts.total():
            return value
    return None
