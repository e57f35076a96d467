"""How many GPUs a node should have: as many as the nodes of its GPU type in its group.

Result: for each node of a group that hardware makes (a dragonfly, an NVLink clique) the number of
GPUs that most of its equals have; of equally frequent numbers the larger.

Why: a node that starts without one of its GPUs has never shown it, so nothing of its own is
missing. Its group is built of equal machines, so they tell. Most of them decide: one that shows too
many must not blame all others; of two, the one with fewer is short. A node of unknown type
(it may show no GPU at all) is held against all. Groups that people write down or a manager lists
may hold what they like, and are not looked at.

Cost: O(1) for a node that comes, goes or changes; O(members) where that changes what most have.
Types are few, and so are the numbers of one; in a group of equals there is one of each.

Example: a clique of 18 trays, 17 with 4 GPUs and one with 3: the one should have 4.
"""

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from topo.discovery.node.record import NodeRecord
from topo.model.errors import require
from topo.model.forest import Path
from topo.model.ids import NodeName
from topo.model.observation import WORKERS

_NOBODY: AbstractSet[NodeName] = frozenset()
_NONE: Mapping[int, int] = {}


class GpuPlace(NamedTuple):
    """The key of a node's innermost group, and the type and number of GPUs that it has."""

    group: str
    gpu_type: str
    gpus: int


def gpu_place(record: NodeRecord | None, path: Path) -> GpuPlace | None:
    """Return where a node is compared, once its GPUs are known: in a group that hardware makes."""
    if record is None or not path or path[-1].source != WORKERS:
        return None
    hardware = record.hardware
    if hardware.gpus is None:
        return None
    return GpuPlace(path[-1].key, hardware.gpu_type, hardware.gpus)


@dataclass(slots=True)
class _Group:
    """The nodes of a group, and by GPU type ("": unknown) how many have each number."""

    nodes: set[NodeName] = field(default_factory=set)
    numbers: dict[str, dict[int, int]] = field(default_factory=dict)

    def count(self, gpu_type: str, gpus: int, step: int) -> bool:
        """Count one more or one less; whether most may have another number now."""
        if not self.numbers:
            self.numbers[gpu_type] = {gpus: step}
            return False
        numbers = self.numbers.setdefault(gpu_type, {})
        # All nodes alike: one more changes no majority. This is the usual case in a healthy
        # cluster.
        if step > 0 and gpus in numbers and len(numbers) == len(self.numbers) == 1:
            numbers[gpus] += step
            return False
        before = self._compared(gpu_type)
        numbers[gpus] = numbers.get(gpus, 0) + step
        if not numbers[gpus]:
            del numbers[gpus]
        if not numbers:
            del self.numbers[gpu_type]
        return self._compared(gpu_type) != before

    def most(self, gpu_type: str) -> int:
        """Return the number that most nodes of a type have; of all nodes for an unknown
        type.
        """
        # A node of unknown type is compared with all nodes of the group.
        if gpu_type or len(self.numbers) == 1:
            numbers = self.numbers.get(gpu_type, _NONE)
        else:
            numbers = sum(map(Counter, self.numbers.values()), Counter[int]())
        if len(numbers) == 1:
            return next(iter(numbers))
        return max(numbers, key=lambda each: (numbers[each], each), default=0)

    def _compared(self, gpu_type: str) -> tuple[int, int]:
        """Return what nodes of a type are held against, and those of no known one, if there are
        any.
        """
        return self.most(gpu_type), self.most("") if "" in self.numbers else 0


class GroupGpuCounts:
    """The numbers of all groups that hardware makes. Mutable; owned by the discovery state."""

    def __init__(self) -> None:
        self._places: dict[NodeName, GpuPlace] = {}
        self._groups: dict[str, _Group] = {}

    def put(self, node: NodeName, place: GpuPlace | None) -> AbstractSet[NodeName]:
        """Set the place of a node; return the others whose expected number may have changed."""
        before = self._places.get(node)
        if before == place:
            return _NOBODY
        touched = _NOBODY
        if before is not None:
            del self._places[node]
            touched |= self._count(node, before, -1)
        if place is not None:
            self._places[node] = place
            touched |= self._count(node, place, 1)
        return touched

    def expected(self, node: NodeName) -> int:
        """Return the GPUs that most of its equals have; 0 where it is in no such group."""
        place = self._places.get(node)
        return 0 if place is None else self._groups[place.group].most(place.gpu_type)

    def validate(self, places: Mapping[NodeName, GpuPlace | None]) -> None:
        """Check that the numbers are those of the nodes in the group."""
        # Counted again from nothing: what is kept incrementally has to be equal.
        again = GroupGpuCounts()
        for node, place in places.items():
            again.put(node, place)
        require(vars(again) == vars(self), "the equals of a group are counted wrongly")

    def _count(self, node: NodeName, place: GpuPlace, step: int) -> AbstractSet[NodeName]:
        """Count a node in or out; all nodes of its group where that changes a number."""
        group = self._groups.get(place.group)
        if group is None:
            group = self._groups[place.group] = _Group()
        (group.nodes.add if step > 0 else group.nodes.discard)(node)
        changed = group.count(place.gpu_type, place.gpus, step)
        if not group.nodes:
            del self._groups[place.group]
        return group.nodes if changed else _NOBODY
