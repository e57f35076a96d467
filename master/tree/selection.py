"""The part of the tree that a request names: groups by name or path, the path to a node."""

from topo.model.forest import Forest, Group, Node
from topo.model.ids import GroupPath, NodeName

Vertex = Group | Node
Selected = tuple[GroupPath, Group]
"""A group with the path of its parent."""


def find_groups(forest: Forest, wanted: str) -> tuple[Selected, ...]:
    """Return the groups of that name, or the one with that path joined by `/`. O(groups).

    A group inside another of the same name is not listed separately.
    """
    found: dict[GroupPath, Group] = {}
    for path, group in forest.groups():
        is_wanted = wanted in {group.name, "/".join(path)}
        if is_wanted and not any(path[: len(around)] == around for around in found):
            found[path] = group
    return tuple((GroupPath(path[:-1]), group) for path, group in found.items())


def find_path(forest: Forest, node: NodeName) -> tuple[Vertex, ...] | None:
    """Return the groups around a placed node from its root down, and the node. O(nodes).

    Empty if it is unplaced, None if it is unknown.
    """
    for root in forest.roots:
        path = _path_below(root, node)
        if path is not None:
            return path
    return () if any(entry.node.name == node for entry in forest.unplaced) else None


def _path_below(group: Group, node: NodeName) -> tuple[Vertex, ...] | None:
    for child in group.children:
        if isinstance(child, Group):
            below = _path_below(child, node)
            if below is not None:
                return (group, *below)
        elif child.name == node:
            return group, child
    return None
