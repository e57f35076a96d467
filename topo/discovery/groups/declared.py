"""The groups that the config file declares, as the path and status of each node in it."""

from collections.abc import Iterable
from typing import NamedTuple

from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Path, PathGroup, Reason, Status
from topo.model.ids import FABRIC_OF_KIND, FabricName, GroupName, NodeName
from topo.model.observation import CONFIG_FILE, DeclaredForest, DeclaredGroup, DeclaredNode


class DeclaredPlace(NamedTuple):
    """Where the file puts a node (an empty path: in no group), and its status as written."""

    path: Path
    status: Status | None


class Declared:
    """The config file's statements by node. Mutable; owned by the discovery state."""

    def __init__(self) -> None:
        self.forest: DeclaredForest | None = None
        self.places: dict[NodeName, DeclaredPlace] = {}
        self.empty_groups: list[Path] = []
        self.root_names: frozenset[GroupName] = frozenset()
        self.fabric: FabricName | None = None
        """That of all groups in which nodes stand; None where their kinds do not say one."""

    def replace(self, forest: DeclaredForest) -> set[NodeName]:
        """Take a file; the nodes whose path or status differs now. O(nodes in both files)."""
        before, self.forest = self.places, forest
        self.places, self.empty_groups = {}, []
        self._read(forest.roots, ())
        groups = [root for root in forest.roots if isinstance(root, DeclaredGroup)]
        self.root_names = frozenset(group.name for group in groups)
        inner = {place.path[-1].kind for place in self.places.values() if place.path}
        fabrics = {FABRIC_OF_KIND.get(kind) for kind in inner}
        self.fabric = fabrics.pop() if len(fabrics) == 1 else None
        names = before.keys() | self.places.keys()
        return {node for node in names if before.get(node) != self.places.get(node)}

    def _read(self, children: Iterable[DeclaredGroup | DeclaredNode], above: Path) -> None:
        for child in children:
            if isinstance(child, DeclaredNode):
                self.places[child.name] = DeclaredPlace(above, child.status)
                continue
            path = (*above, _path_group(child))
            if not child.children:
                self.empty_groups.append(path)
            self._read(child.children, path)


def _path_group(group: DeclaredGroup) -> PathGroup:
    """Return the group of a path; one written NotReady without a cause stays NotReady."""
    not_ready = Status.NOT_READY
    caused = any(child.status is not_ready for child in group.children)
    written = group.status is not_ready and not caused
    troubles = (Reason.of(NodeCondition.CONFIG),) if written else ()
    return PathGroup(group.kind, group.name, group.name, CONFIG_FILE, troubles=troubles)
