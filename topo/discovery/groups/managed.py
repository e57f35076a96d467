"""The cluster manager's groups, and the upper part of a node's path that they make.

The dragonflies inside them are left out: the workers see those themselves.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from topo.model.forest import Path, PathGroup
from topo.model.ids import DRAGONFLY, GroupName
from topo.model.observation import CLUSTER_MANAGER, ManagedGroup, ManagedMachine

Chain = tuple[ManagedGroup, ...]
"""Groups of the manager from the outermost down to the one that holds a machine."""


class ManagedGroups:
    """The groups of one answer, and those of the answer before that a missing machine still needs.

    O(groups and machines) to make; each chain and path is worked out once.
    """

    def __init__(
        self,
        stated: Mapping[str, ManagedGroup],
        before: Mapping[str, ManagedGroup],
        machines: Iterable[ManagedMachine],
    ) -> None:
        self.by_id = {**before, **stated}
        self._chains: dict[str, Chain] = {}
        self._paths: dict[str, Path] = {}
        chains = (self.chain(machine.group_id) for machine in machines)
        self._machine_counts = Counter(group.id for chain in chains for group in chain)
        self.stated = stated
        held = self._machine_counts.keys() - stated.keys()
        self.by_id = {i: g for i, g in self.by_id.items() if i in stated or i in held}
        self._names = _unique_names(self.by_id.values(), held)
        roots = [group.id for group in self.by_id.values() if group.parent_id not in self.by_id]
        self.root_names = frozenset(self._names[each] for each in roots)

    def chain(self, group_id: str | None) -> Chain:
        """Return the groups down to this one, outermost first; empty for None."""
        if group_id is None or group_id not in self.by_id:
            return ()
        if group_id not in self._chains:
            self._chains[group_id] = ()  # ends a circle, which no sound answer has
            group = self.by_id[group_id]
            self._chains[group_id] = (*self.chain(group.parent_id), group)
        return self._chains[group_id]

    def path(self, chain: Chain) -> Path:
        """Return the path that a chain of groups stands for; empty for an empty chain."""
        if not chain:
            return ()
        innermost = chain[-1].id
        if innermost not in self._paths:
            self._paths[innermost] = tuple(map(self._path_group, without_dragonflies(chain)))
        return self._paths[innermost]

    def _path_group(self, group: ManagedGroup) -> PathGroup:
        return PathGroup(
            kind=group.kind,
            key=group.id,
            name=self._names[group.id],
            source=CLUSTER_MANAGER,
            expected=self._machine_counts.get(group.id),
        )


def without_dragonflies(chain: Chain) -> Chain:
    """Return the groups of a chain that the manager alone states."""
    return tuple(group for group in chain if group.kind != DRAGONFLY)


def _unique_names(groups: Iterable[ManagedGroup], held: AbstractSet[str]) -> dict[str, GroupName]:
    """Return names by group id; siblings of one name get their id behind it.

    A group that is only held for missing machines gives way to one that the manager states.
    """
    siblings: dict[tuple[str | None, GroupName], list[ManagedGroup]] = {}
    for group in groups:
        siblings.setdefault((group.parent_id, group.name), []).append(group)
    names: dict[str, GroupName] = {}
    for same in siblings.values():
        stated = [g for g in same if g.id not in held] if len(same) > 1 else same
        for group in same:
            alone = stated == [group]
            names[group.id] = group.name if alone else GroupName(f"{group.name}~{group.id}")
    return names
