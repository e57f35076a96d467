"""What a topology of Slurm is made of: switches in a tree, or blocks in a row."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from topo.model.ids import GroupName, GroupPath, NodeName

_K = TypeVar("_K", bound=Hashable)


class Unit(NamedTuple):
    """A switch or a block by its name: its nodes, or the switches below it; or neither."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """Switches or blocks in the order of the file; `block_sizes` only of blocks, () of a tree.

    `is_flat`: neither, only a name that partitions may have.
    """

    name: str
    units: tuple[Unit, ...]
    block_sizes: tuple[int, ...] = ()
    is_block: bool = False
    is_flat: bool = False


class Part(NamedTuple):
    """A group that becomes a unit: where it stands, and its nodes or the parts below it."""

    path: GroupPath
    nodes: tuple[NodeName, ...] = ()
    below: tuple[GroupPath, ...] = ()


ALONE = GroupName("")
"""Stands in the path of a leaf for one node in no group; no group is called so."""
ALONE_PREFIX = "node-"


def alone(node: NodeName, above: GroupPath) -> Part:
    """Return the part of a node that stands in no group with others."""
    return Part(GroupPath((*above, ALONE, GroupName(f"{ALONE_PREFIX}{node}"))), (node,))


class Reach(NamedTuple):
    """How many levels stand below a unit, 0 where it holds nodes, and all nodes below it."""

    height: int
    nodes: frozenset[str]


def reaches(units: Mapping[_K, tuple[Iterable[str], Iterable[_K]]]) -> Mapping[_K, Reach]:
    """Return the reach of each unit from its nodes and children; () of one in a circle or above it.

    A hand-written file may name children that are not there. O(nodes times levels).
    """
    found: dict[_K, Reach] = {}
    waiting = {name: set(below) & units.keys() for name, (_, below) in units.items()}
    above: dict[_K, list[_K]] = {}
    for name, below in waiting.items():
        for each in below:
            above.setdefault(each, []).append(name)
    ready = [name for name, below in waiting.items() if not below]
    while ready:
        name = ready.pop()
        nodes, children = units[name]
        inner = [found[each] for each in children if each in units]
        height = 1 + max(each.height for each in inner) if inner else 0
        found[name] = Reach(height, frozenset(nodes).union(*(each.nodes for each in inner)))
        for parent in above.get(name, ()):
            waiting[parent].discard(name)
            if not waiting[parent]:
                ready.append(parent)
    return {name: found.get(name, Reach(0, frozenset())) for name in units}
