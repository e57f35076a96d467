"""The cluster manager's groups as the upper part of a node's path.

The dragonflies inside them are left out: the workers see those themselves.
"""

from collections.abc import Iterable, Mapping

from topo.discovery.groups.machine_join import Machines
from topo.discovery.tree.forest import Path, PathGroup
from topo.model.ids import DRAGONFLY, GroupName
from topo.model.observation import CLUSTER_MANAGER, ManagedGroup

Chain = tuple[ManagedGroup, ...]
"""Groups of the manager from the outermost down to the one that holds a machine."""


class ManagedPaths:
    """Paths made of the manager's groups, each made once per answer. Mutable."""

    def __init__(self) -> None:
        self._machine_counts: Mapping[str, int] = {}
        self._names: Mapping[str, GroupName] = {}
        self._paths: dict[str, Path] = {}

    def replace(self, machines: Machines) -> None:
        """Name the groups and count their machines anew. O(groups and machines)."""
        self._machine_counts = machines.machine_counts()
        self._names = _unique_names(machines.topology.groups, machines.held)
        self._paths = {}

    def path(self, chain: Chain) -> Path:
        """The path that a chain of groups stands for; empty for an empty chain."""
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
            name=self._names.get(group.id, group.name),
            source=CLUSTER_MANAGER,
            expected=self._machine_counts.get(group.id),
        )


def without_dragonflies(chain: Chain) -> Chain:
    """The groups of a chain that the manager alone states."""
    return tuple(group for group in chain if group.kind != DRAGONFLY)


def _unique_names(groups: Iterable[ManagedGroup], held: frozenset[str]) -> dict[str, GroupName]:
    """Names by group id; siblings of one name get their id behind it, so that none merge.

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
