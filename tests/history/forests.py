"""Any forests at all, and the next ones of them, for the tests of what is kept of them."""

from dataclasses import replace

from hypothesis import strategies as st

from topo.model.forest import (
    Conflict,
    Forest,
    Group,
    LinkState,
    Node,
    NodeSuspicion,
    PathGroup,
    Reason,
    Status,
    UnjoinedMachine,
    Unplaced,
    Wire,
)

names = st.sampled_from(["a", "b", "n-1", "n-2", "\u202e<b>", "", 'q"'])
statuses = st.sampled_from(Status)
reasons = st.lists(st.builds(Reason, names, names), max_size=2).map(tuple)
wires = st.builds(Wire, st.integers(0, 9), names, st.none() | names, st.sampled_from(LinkState))
path_groups = st.builds(
    PathGroup,
    names,
    names,
    names,
    names,
    st.none() | st.integers(0, 9),
    st.booleans(),
    reasons,
    st.booleans(),
)
places = st.tuples(names, st.lists(path_groups, min_size=1, max_size=2).map(tuple))
suspicions = st.builds(NodeSuspicion, st.just((("slot 1", "flapped"),)), st.none() | names)
nodes = st.builds(
    Node,
    names,
    statuses,
    reasons,
    st.integers(0, 8),
    names,
    st.lists(wires, max_size=2).map(tuple),
    st.none() | suspicions,
    st.lists(places, max_size=1).map(tuple),
)


def _groups(children: st.SearchStrategy[Group | Node]) -> st.SearchStrategy[Group | Node]:
    return st.builds(
        Group,
        names,
        names,
        st.integers(1, 3),
        statuses,
        st.lists(children, max_size=3).map(tuple),
        reasons,
        st.none() | st.integers(0, 9),
        st.none() | names,
        names,
        names,
    )


groups = _groups(st.recursive(nodes, _groups, max_leaves=3))
"""Groups of any depth: names may be equal among siblings, and a group may stand beside nodes."""
forests = st.builds(
    Forest,
    st.lists(groups, max_size=3).map(tuple),
    st.lists(st.builds(Unplaced, nodes, st.builds(Reason, names, names)), max_size=3).map(tuple),
    st.lists(
        st.builds(Conflict, names, st.lists(names, max_size=2).map(tuple), names, names),
        max_size=3,
    ).map(tuple),
    st.lists(
        st.builds(
            UnjoinedMachine,
            names,
            st.lists(st.tuples(names, names), max_size=2).map(tuple),
            st.lists(names, max_size=2).map(tuple),
            names,
        ),
        max_size=2,
    ).map(tuple),
)


def _within(group: Group, draw: st.DrawFn) -> Group:
    """The group with some of its children changed, gone, come or moved, or with other words."""
    children: list[Group | Node] = []
    for child in group.children:
        what = draw(st.sampled_from(["stays", "stays", "goes", "changes", "comes before"]))
        if what == "comes before":
            children.append(draw(nodes))
        if what == "changes":
            children.append(_within(child, draw) if isinstance(child, Group) else draw(nodes))
        elif what != "goes":
            children.append(child)
    if draw(st.booleans()):
        children = draw(st.permutations(children))
    changed = replace(group, children=tuple(children))
    return replace(changed, status=draw(statuses)) if draw(st.booleans()) else changed


@st.composite
def next_forests(draw: st.DrawFn, first: Forest) -> Forest:
    """A forest of which most is the same object in the first one."""
    roots = [_within(root, draw) if draw(st.booleans()) else root for root in first.roots]
    if not draw(st.booleans()):
        return replace(first, roots=tuple(roots))
    return replace(draw(forests), roots=tuple(roots))
