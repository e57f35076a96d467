"""From the path of every node to the forest: a strict tree, rebuilt only where something changed.

Result: the roots, with every group's children in natural order, its status and its reasons. A group
whose name was generated stands where its smallest member would: to a reader the hash is no order.

A path is the chain of groups above a node, outermost first. A group's identity is its whole chain
of keys, so equal keys under two parents are two groups, and since a node has one path, nothing can
have two parents.

Why a change costs its depth: every branch of the tree remembers which of its children changed in
value, and whether its set of children changed. `build` goes down the marked branches only, and a
group whose value is the same stays the same object, so what hangs beside the path of a change is
taken over as it is.

Cost: O(depth) to place or touch a node; `build` is O(children) for each branch on a changed path.

Why the order holds: a branch knows its smallest member; where that changes, the children of the
branch above are sorted again.

Example: a and b stand in box-1/fly-1, c in box-1/fly-2. When a becomes NotReady, `touch(a)` marks
box-1 and fly-1; `build` makes new objects for fly-1 and box-1 and takes the object of fly-2 over.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from topo.model.conditions.tree import GroupCondition
from topo.model.forest import Group, Node, Path, PathGroup, Reason, Status
from topo.model.ids import GroupName, Kind, NodeName, SourceName, natural_key

_ROOT = PathGroup(Kind(""), "", GroupName(""), SourceName(""))
Leaf = Callable[[NodeName], Node]
_Slot = NodeName | tuple[str]
"""A node's name, or a group's key in a tuple, so that a key is never taken for a name."""


@dataclass(slots=True)
class _Branch:
    """One group under construction; the root of the tree is one that is never shown.

    `children` are in natural order, None after the set of children changed. `stale_…` name the
    children whose own value changed. A `kept` branch may be empty.
    """

    group: PathGroup
    branches: "dict[str, _Branch]" = field(default_factory=dict)
    leaves: set[NodeName] = field(default_factory=set)
    children: "dict[_Slot, Group | Node] | None" = None
    stale_branches: set[str] = field(default_factory=set)
    stale_leaves: set[NodeName] = field(default_factory=set)
    built: Group | None = None
    nodes: int = 0
    least: NodeName | None = None
    kept: bool = False


class Tree:
    """All placed nodes by path. Mutable; owned by the discovery state."""

    def __init__(self) -> None:
        self._root = _Branch(_ROOT)
        self._paths: dict[NodeName, Path] = {}
        self._roots: tuple[Group, ...] = ()
        self._kept: dict[tuple[str, ...], Path] = {}

    def place(self, node: NodeName, path: Path) -> None:
        """Put a node at the end of a path; an empty path takes it out. O(depth)."""
        before = self._paths.get(node, ())
        if before == path:
            return
        if before:
            branch = self._trail(before)[-1]
            branch.leaves.discard(node)
            # The set of children changed, so their order is worked out again at the next build.
            branch.children = None
            self._prune(before)
            del self._paths[node]
        if path:
            branch = self._open(path)
            branch.leaves.add(node)
            branch.children = None
            self._paths[node] = path

    def touch(self, node: NodeName) -> None:
        """Note that a node's own value changed. O(depth)."""
        if node not in self._paths:
            return
        branch = self._root
        for group in self._paths[node]:
            branch.stale_branches.add(group.key)
            branch = branch.branches[group.key]
        branch.stale_leaves.add(node)

    def keep(self, paths: Iterable[Path]) -> None:
        """Set the groups that are shown even while no node is in them."""
        before, self._kept = self._kept, {_keys(path): path for path in paths}
        for keys, path in before.items():
            if keys not in self._kept:
                self._trail(path)[-1].kept = False
                self._prune(path)
        for path in self._kept.values():
            self._open(path).kept = True

    @property
    def kept(self) -> Collection[Path]:
        """The groups that are shown even while no node stands in them."""
        return self._kept.values()

    def build(self, leaf: Leaf) -> tuple[Group, ...]:
        """Return the roots in natural order; groups that did not change are the same objects as
        before.
        """
        if self._root.stale_branches or self._root.children is None:
            children = _children(self._root, leaf).values()
            self._roots = tuple(g for g in children if isinstance(g, Group))
        return self._roots

    def _open(self, path: Path) -> _Branch:
        """Return the branch at the end of a path, made where it is not there yet."""
        branch = self._root
        for group in path:
            branch.stale_branches.add(group.key)
            below = branch.branches.get(group.key)
            if below is None:
                below = branch.branches[group.key] = _Branch(group)
                branch.children = None
            # Same key, other statement of the group: only a new name can change the order of
            # siblings.
            elif below.group is not group:
                named = below.group.name, below.group.generated
                if named != (group.name, group.generated):
                    branch.children = None
                below.group = group
            branch = below
        return branch

    def _trail(self, path: Path) -> list[_Branch]:
        trail = [self._root]
        for group in path:
            trail.append(trail[-1].branches[group.key])
        return trail

    def _prune(self, path: Path) -> None:
        """Drop the branches along a path that hold nothing any more, and mark the others stale."""
        trail = self._trail(path)
        for above, group in zip(trail, path, strict=False):
            above.stale_branches.add(group.key)
        # From the innermost group outwards: an empty group may leave its parent empty.
        for depth in range(len(path), 0, -1):
            if trail[depth].branches or trail[depth].leaves or trail[depth].kept:
                break
            del trail[depth - 1].branches[path[depth - 1].key]
            trail[depth - 1].children = None


def _keys(path: Path) -> tuple[str, ...]:
    return tuple(group.key for group in path)


def _children(branch: _Branch, leaf: Leaf) -> "dict[_Slot, Group | Node]":
    """Return the children of a branch in natural order, reusing unchanged ones.

    A child whose value changed is replaced in its slot; a changed set of children is sorted again,
    and one whose smallest member changed.
    """
    for key in branch.stale_branches:
        below = branch.branches.get(key)
        if below is None:
            continue
        least = below.least
        _grow(below, leaf)
        # Generated names are sorted by their smallest member, so this group may belong elsewhere.
        if below.least != least:
            branch.children = None
    if branch.children is None:
        branch.children = _arranged(branch, leaf)
        branch.least = _least(branch)
    else:
        branch.children |= {node: leaf(node) for node in branch.stale_leaves & branch.leaves}
        branch.children |= _built(branch, branch.stale_branches)
    branch.nodes = len(branch.leaves) + sum([b.nodes for b in branch.branches.values()])
    branch.stale_branches.clear()
    branch.stale_leaves.clear()
    return branch.children


def _arranged(branch: _Branch, leaf: Leaf) -> "dict[_Slot, Group | Node]":
    nodes: dict[_Slot, Group | Node] = {
        node: leaf(node) for node in sorted(branch.leaves, key=natural_key)
    }
    if not branch.branches:
        return nodes
    return dict(sorted({**nodes, **_built(branch, branch.branches)}.items(), key=_order))


def _least(branch: _Branch) -> NodeName | None:
    """Return the smallest member of a branch whose branches know theirs. O(children)."""
    if not branch.branches:
        return min(branch.leaves, key=natural_key, default=None)
    below = (b.least for b in branch.branches.values())
    members = (*branch.leaves, *(name for name in below if name is not None))
    return min(members, key=natural_key, default=None)


def _built(branch: _Branch, keys: Iterable[str]) -> "dict[_Slot, Group]":
    groups = ((key, branch.branches[key].built) for key in keys)
    return {(key,): group for key, group in groups if group is not None}


def _grow(branch: _Branch, leaf: Leaf) -> None:
    children = tuple(_children(branch, leaf).values())
    below = [b.built.tier for b in branch.branches.values() if b.built is not None]
    group = _group(branch, children, max(below, default=0) + 1)
    # An equal group stays the same object: readers skip subtrees by identity.
    if group != branch.built:
        branch.built = group


def _order(child_in_slot: tuple[_Slot, Group | Node]) -> tuple[object, ...]:
    """Return the sort key: the name, or the smallest member where the name was generated.

    The name itself, kind and sort of vertex only part children that stand at one place.
    """
    _, child = child_in_slot
    name = natural_key(child.name)
    if isinstance(child, Node):
        return name, name, "", True
    return natural_key(child.place or child.name), name, child.kind, False


def _group(branch: _Branch, children: tuple[Group | Node, ...], tier: int) -> Group:
    stated, nodes = branch.group, branch.nodes
    reasons = tuple(_group_reasons(stated, children, nodes))
    return Group(
        name=stated.name,
        kind=stated.kind,
        tier=tier,
        status=Status.NOT_READY if reasons else Status.READY,
        children=children,
        reasons=reasons,
        expected=stated.expected,
        source=stated.source,
        key=stated.key,
        place=(branch.least or "") if stated.generated else "",
    )


def _group_reasons(
    stated: PathGroup, children: tuple[Group | Node, ...], nodes: int
) -> Iterator[Reason]:
    yield from stated.troubles
    if not nodes:
        yield Reason.of(GroupCondition.EMPTY)
    if stated.expected is not None and nodes < stated.expected:
        yield Reason(GroupCondition.INCOMPLETE, f"{nodes} of {stated.expected} nodes")
    if stated.expected is not None and stated.exact and nodes > stated.expected:
        text = f"{nodes} nodes are wired together where {stated.expected} make a {stated.kind}"
        yield Reason(GroupCondition.OVERSIZE, text)
    not_ready = Status.NOT_READY
    bad = [child.name for child in children if child.status is not_ready]
    if bad:
        shown = ", ".join(bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
        yield Reason(GroupCondition.CHILD_NOT_READY, f"not ready: {shown}")
