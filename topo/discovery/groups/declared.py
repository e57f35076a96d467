"""The groups that the config file declares, as the path and status of each node in it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from topo.discovery.tree.forest import Path, PathGroup
from topo.model.forest import Reason, Status
from topo.model.ids import NodeName
from topo.model.observation import CONFIG_FILE, DeclaredForest, DeclaredGroup, DeclaredNode

_Child = DeclaredGroup | DeclaredNode


class DeclaredPlace(NamedTuple):
    """Where the file puts a node (an empty path: in no group), and its status as written."""

    path: Path
    status: Status | None


class Declared:
    """The config file's statements by node. Mutable; owned by the discovery state."""

    def __init__(self) -> None:
        self.forest: DeclaredForest | None = None
        self.places: Mapping[NodeName, DeclaredPlace] = {}
        self.empty_groups: tuple[Path, ...] = ()

    def replace(self, forest: DeclaredForest) -> set[NodeName]:
        """Take a file; the nodes whose path or status differs now. O(nodes in both files)."""
        before, now = self.places, dict(_places(forest.roots, ()))
        self.forest, self.places = forest, now
        self.empty_groups = tuple(_empty_groups(forest.roots, ()))
        return {node for node in before.keys() | now.keys() if before.get(node) != now.get(node)}


def _places(children: Iterable[_Child], above: Path) -> Iterator[tuple[NodeName, DeclaredPlace]]:
    for child in children:
        if isinstance(child, DeclaredNode):
            yield child.name, DeclaredPlace(above, child.status)
        else:
            yield from _places(child.children, (*above, _path_group(child)))


def _empty_groups(children: Iterable[_Child], above: Path) -> Iterator[Path]:
    for child in children:
        if isinstance(child, DeclaredGroup):
            path = (*above, _path_group(child))
            if not child.children:
                yield path
            yield from _empty_groups(child.children, path)


def _path_group(group: DeclaredGroup) -> PathGroup:
    """A declared group is complete as written; one written NotReady without cause stays so."""
    not_ready = Status.NOT_READY
    caused = any(child.status is not_ready for child in group.children)
    written = group.status is not_ready and not caused
    troubles = (Reason("config", "the config file says NotReady"),) if written else ()
    return PathGroup(group.kind, group.name, group.name, CONFIG_FILE, troubles=troubles)
