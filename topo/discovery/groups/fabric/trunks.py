"""Cables between switches that are missing or slow, judged by those beside them, without a plan.

Result: sentences about leaves that have fewer cables to switches above than most leaves of the same
group around them, and about cables that are slower than most of a switch at one of their ends.

Why that is right: leaves beside each other are cabled alike, and so are the ports of one switch
that lead to switches. "Most" is more than half, of three at least; where no number has so many
nothing is usual, and nobody is told.

Cost: O(cables between switches and leaves).

Example: three of the four leaves of a pod have 18 cables to its spines, the fourth has 14: told.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from topo.discovery.groups.fabric.switch_tiers import SwitchPath
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
    of_switch: defaultdict[Guid, list[Cable]] = defaultdict(list)
    for cable in wires.trunk_cables:
        of_switch[cable.one.device].append(cable)
        of_switch[cable.other.device].append(cable)
    told = (*_short(wires, beside.values(), of_switch), *_slow(wires, of_switch))
    return tuple(sorted(told, key=natural_key))


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
