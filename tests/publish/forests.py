"""Forests of switchboxes and dragonflies for tests, written as plain dictionaries or drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from topo.model.forest import Forest, Group, Node, PathGroup, Reason, Status, Unplaced
from topo.model.ids import DRAGONFLY, SCALE_OUT, SWITCHBOX, GroupName, Kind, NodeName
from topo.model.observation import FABRIC

Flies = Mapping[str, Sequence[str]]
LEAF = Kind("leaf")


def node(name: str) -> Node:
    return Node(NodeName(name), Status.READY)


def group(name: str, kind: Kind, tier: int, children: Sequence[Group | Node]) -> Group:
    return Group(GroupName(name), kind, tier, Status.READY, tuple(children))


def fly(name: str, nodes: Sequence[str]) -> Group:
    return group(name, DRAGONFLY, 1, [node(each) for each in nodes])


def box(name: str, flies: Flies, alone: Sequence[str] = ()) -> Group:
    """A switchbox of dragonflies, and of nodes in none."""
    children = [fly(each, nodes) for each, nodes in flies.items()]
    return group(name, SWITCHBOX, 2 if flies else 1, [*children, *map(node, alone)])


def forest(*roots: Group, unplaced: Sequence[str] = ()) -> Forest:
    why = Reason("no-peer", "its worker sees no peer")
    return Forest(roots, tuple(Unplaced(node(name), why) for name in unplaced))


VENDOR = forest(
    box("switchbox-1", {"dragonfly-1": ["node-1", "node-2"], "dragonfly-2": ["node-3", "node-4"]}),
    box("switchbox-2", {"dragonfly-3": ["node-5", "node-6"], "dragonfly-4": ["node-7", "node-8"]}),
)
"""The shape of the vendor's manual: two nodes make a dragonfly, two dragonflies a switchbox."""


@st.composite
def forests(draw: st.DrawFn, nodes: int = 8, names: st.SearchStrategy[str] | None = None) -> Forest:
    """Any placement of so many nodes in up to three switchboxes of up to three dragonflies each.

    Groups may be empty, equal dragonflies have equal names in all switchboxes unless `names` are
    given, and a node may be in a switchbox alone or in no group.
    """
    flies = [f"dragonfly-{each}" for each in range(3)]
    boxes = [f"switchbox-{each}" for each in range(3)]
    if names is not None:
        flies = draw(st.lists(names, min_size=3, max_size=3, unique=True))
        boxes = draw(st.lists(names, min_size=3, max_size=3, unique=True))
    places = st.one_of(
        st.just((None, None)), st.tuples(st.sampled_from(boxes), st.sampled_from([*flies, None]))
    )
    at = {f"node-{each}": draw(places) for each in range(nodes)}
    roots = [
        box(
            one,
            {
                other: [name for name, place in at.items() if place == (one, other)]
                for other in flies
            },
            [name for name, place in at.items() if place == (one, None)],
        )
        for one in boxes
    ]
    return forest(*roots, unplaced=[name for name, place in at.items() if place == (None, None)])


def hanging(of: Forest, leaves: Mapping[str, str]) -> Forest:
    """The same forest; these nodes hang on leaves of another fabric."""

    def hung(vertex: Group | Node) -> Group | Node:
        if isinstance(vertex, Group):
            return replace(vertex, children=tuple(map(hung, vertex.children)))
        if vertex.name not in leaves:
            return vertex
        leaf = leaves[vertex.name]
        path = (PathGroup(LEAF, leaf, GroupName(leaf), FABRIC),)
        return replace(vertex, elsewhere=((SCALE_OUT, path),))

    roots = tuple(group for group in map(hung, of.roots) if isinstance(group, Group))
    return replace(of, roots=roots)


LEAVES = {f"node-{each}": f"leaf-{2 - each % 2}" for each in range(1, 9)}
"""Each of the vendor's dragonflies hangs on two leaves."""
