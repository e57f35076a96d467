"""The forest as a tree of switches for `topology/tree`.

A group is a switch; `cluster` is the switch above all, without which Slurm starts no job over two
roots. Slurm drops the switches of a switch that has nodes, too, so a node that stands beside
groups, or in none, is a leaf alone: it can be used, and is nobody's neighbour. A group without a
node is no switch. O(nodes).

Example: box-1 has fly-1 = {a, b} and c beside it; d is in no group. Slurm reads
    SwitchName=cluster Switches=box-1,node-d
    SwitchName=box-1 Switches=fly-1,node-c
    SwitchName=fly-1 Nodes=a,b
    SwitchName=node-c Nodes=c
    SwitchName=node-d Nodes=d
"""

from collections.abc import Callable, Iterable, Iterator

from topo.model.forest import ROOT, Forest, Group, Node
from topo.model.ids import GroupPath, NodeName, natural_key
from topo.publish.slurm.kept_names import ROOT_SWITCH, choose_names
from topo.publish.slurm.topology import Part, Topology, Unit, alone


def tree_topology(
    forest: Forest, name: str, earlier: Topology | None, is_written: Callable[[str], bool]
) -> Topology:
    """Return the tree of all nodes that `is_written`; names of the earlier one stay.

    An earlier name that no group has is an empty leaf without a switch above it.
    """
    parts: list[Part] = []
    tops: list[Group | Node] = [*forest.roots, *(entry.node for entry in forest.unplaced)]
    roots = [path for each in tops if (path := _add(parts, each, ROOT, is_written)) is not None]
    names = choose_names(parts, earlier)
    at = {part.path: part for part in parts}

    def units(paths: Iterable[GroupPath]) -> Iterator[Unit]:
        # By the names that are written: a group that is called otherwise stays where it is.
        for path in sorted(paths, key=lambda each: natural_key(names.of[each])):
            below = tuple(names.of[each] for each in at[path].below)
            yield Unit(names.of[path], at[path].nodes, below)
            yield from units(at[path].below)

    top = Unit(ROOT_SWITCH, switches=tuple(names.of[path] for path in roots))
    return Topology(name, (top, *units(roots), *map(Unit, names.gone)))


def _add(
    parts: list[Part], vertex: Group | Node, above: GroupPath, is_written: Callable[[str], bool]
) -> GroupPath | None:
    """Add a vertex and what is below it; return its path, None where it has no node."""
    if isinstance(vertex, Node):
        if not is_written(vertex.name):
            return None
        parts.append(alone(vertex.name, above))
        return parts[-1].path
    path = GroupPath((*above, vertex.name))
    nodes = _nodes_alone(vertex, is_written)
    if nodes is not None:
        if nodes:
            parts.append(Part(path, nodes))
        return path if nodes else None
    inner = (_add(parts, child, path, is_written) for child in vertex.children)
    below = tuple(each for each in inner if each is not None)
    if below:
        parts.append(Part(path, below=below))
    return path if below else None


def _nodes_alone(group: Group, is_written: Callable[[str], bool]) -> tuple[NodeName, ...] | None:
    """Return the nodes of a group that has no group below it with a node; None of others."""
    nodes: list[NodeName] = []
    for child in group.children:
        if isinstance(child, Node):
            nodes += [child.name] if is_written(child.name) else []
        elif any(isinstance(each, Node) and is_written(each.name) for _, each in child.walk()):
            return None
    return tuple(nodes)
