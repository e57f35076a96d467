"""The part of the tree that a request names: groups by name or path, the path to a node."""

from dataclasses import replace

from topo.model.forest import ROOT, Forest, Group
from topo.model.ids import GroupPath, NodeName

Selected = tuple[GroupPath, Group]
"""A group with the path of its parent."""


def find_groups(forest: Forest, wanted: str) -> tuple[Selected, ...]:
    """The groups of that name, or the one whose path joined with `/` it is. O(groups)."""
    return tuple(
        (above, vertex)
        for above, vertex in forest.walk()
        if isinstance(vertex, Group)
        and (vertex.name == wanted or "/".join((*above, vertex.name)) == wanted)
    )


def path_to(forest: Forest, node: NodeName) -> tuple[Selected, ...] | None:
    """The one root around a placed node, pruned to the path; empty if unplaced, None if unknown."""
    for root in forest.roots:
        pruned = _pruned(root, node)
        if pruned is not None:
            return ((ROOT, pruned),)
    return () if any(entry.node.name == node for entry in forest.unplaced) else None


def _pruned(group: Group, node: NodeName) -> Group | None:
    for child in group.children:
        if isinstance(child, Group):
            below = _pruned(child, node)
            if below is not None:
                return replace(group, children=(below,))
        elif child.name == node:
            return replace(group, children=(child,))
    return None
