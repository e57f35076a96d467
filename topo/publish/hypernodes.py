"""The forest as Volcano's HyperNodes: which there should be, and with which members.

Format: `hypernodes.topology.volcano.sh`, v1alpha1, of volcano-sh/apis v1.14. Members are always
matched exactly: a scheduler follows no other kind of member when a node's labels change. A tier has
one kind of groups, 1 is closest to the nodes; a job that asks for tier 1 gets one dragonfly. A node
in a switchbox and in no dragonfly is a member of the switchbox itself.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple

from topo.model.errors import require
from topo.model.forest import Forest, Group
from topo.model.ids import (
    DRAGONFLY,
    NVLINK_CLIQUE,
    NVLINK_DOMAIN,
    SWITCHBOX,
    GroupPath,
    Kind,
)
from topo.publish.names import OBJECT_NAME, is_dns_name, unique_names

_KNOWN_NESTING = {SWITCHBOX: {DRAGONFLY}, NVLINK_DOMAIN: {NVLINK_CLIQUE}}
"""Keeps the tier of a switchbox while no dragonfly is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperNode:
    """A group: the names of the nodes and of the HyperNodes that are its members."""

    name: str
    tier: int
    tier_name: str
    nodes: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


HyperNodes = Mapping[str, HyperNode]
"""By name."""
NODE_MEMBER, GROUP = "Node", "HyperNode"
"""The API's words for what a member is."""


class MemberRef(NamedTuple):
    """One member of a HyperNode: its type, `NODE_MEMBER` or `GROUP`, and its name."""

    type: str
    name: str


class GroupTier(NamedTuple):
    """The tier of a group as a HyperNode, and its kind."""

    number: int
    kind: Kind


def group_tiers(forest: Forest) -> Mapping[GroupPath, GroupTier]:
    """Return the tier of every group. O(nodes)."""
    groups = dict(forest.groups())
    return {path: GroupTier(tier, groups[path].kind) for path, tier in _tiers(groups).items()}


def hypernodes(forest: Forest) -> HyperNodes:
    """Return the HyperNodes of all groups that have a node below them. O(nodes)."""
    groups = dict(forest.groups())
    names, tiers = unique_names(groups, OBJECT_NAME), _tiers(groups)
    found: dict[str, HyperNode] = {}
    for path, group in reversed(groups.items()):  # what is below is known first
        nodes, below = set[str](), set[str]()
        for child in group.children:
            if isinstance(child, Group):
                below.add(names[GroupPath((*path, child.name))])
            elif is_dns_name(child.name):  # another makes the API refuse the whole
                nodes.add(child.name)
        below &= found.keys()
        if nodes or below:
            found[names[path]] = HyperNode(
                name=names[path],
                tier=tiers[path],
                tier_name=group.kind,
                nodes=frozenset(nodes),
                groups=frozenset(below),
            )
    return dict(reversed(found.items()))


def validate(tree: HyperNodes) -> None:
    """Raise `BrokenInvariantError` for what would stop Volcano; see `faults`."""
    for fault in faults(tree):
        require(False, fault)


def faults(tree: HyperNodes) -> Iterator[str]:
    """Return what is wrong with a tree: Volcano places no topology job while a single thing is.

    No member may be in two HyperNodes, none missing, none empty, and tiers grow upwards, so that
    there is no circle.
    """
    holders: dict[MemberRef, str] = {}
    for hypernode in tree.values():
        if not (hypernode.nodes or hypernode.groups):
            yield f"{hypernode.name} has no member"
        for member in members(hypernode):
            if (other := holders.setdefault(member, hypernode.name)) != hypernode.name:
                yield f"{member.type} {member.name} is in {other} and in {hypernode.name}"
        for child in sorted(hypernode.groups):
            if child not in tree:
                yield f"{hypernode.name} names {child}, which is not there"
            elif tree[child].tier >= hypernode.tier:
                yield f"{child} is not below {hypernode.name}"


def without_members(
    tree: HyperNodes, names: AbstractSet[str], of: AbstractSet[MemberRef]
) -> HyperNodes:
    """Return the tree without the HyperNodes of these names and without these members.

    What has no member left goes, too.
    """
    found = {name: each for name, each in tree.items() if name not in names}
    while True:
        gone = {MemberRef(GROUP, name) for name in tree.keys() - found.keys()} | of
        less = {
            name: with_members(each, frozenset(members(each)) - gone)
            for name, each in found.items()
        }
        less = {name: each for name, each in less.items() if each.nodes or each.groups}
        # A HyperNode that lost its last member goes, which may empty its parent: repeat until
        # stable.
        if less.keys() == found.keys():
            return less
        found = less


def with_kept_nodes(tree: HyperNodes, present: HyperNodes, nodes: AbstractSet[str]) -> HyperNodes:
    """Return the tree, and these nodes where they are in the present one.

    The HyperNodes above them stay with them; both trees are valid, and so is the result.
    """
    found = dict(tree)
    placed = {node for each in tree.values() for node in each.nodes}
    kept = {MemberRef(NODE_MEMBER, node) for node in nodes - placed}
    children = {child for each in tree.values() for child in each.groups}
    while kept:
        above = set[MemberRef]()
        for name, each in present.items():
            more = kept & frozenset(members(each))
            if not more:
                continue
            base = found.get(name)
            if base is None:
                base = with_members(each, frozenset())
                if name not in children:
                    above.add(MemberRef(GROUP, name))
            found[name] = with_members(base, frozenset(members(base)) | more)
        kept = above
    return found


def members(hypernode: HyperNode) -> Iterator[MemberRef]:
    """Return every member, in an order that does not change."""
    yield from (MemberRef(GROUP, name) for name in sorted(hypernode.groups))
    yield from (MemberRef(NODE_MEMBER, name) for name in sorted(hypernode.nodes))


def with_members(hypernode: HyperNode, of: AbstractSet[MemberRef]) -> HyperNode:
    """Return the same HyperNode with other members."""
    nodes = frozenset(name for kind, name in of if kind == NODE_MEMBER)
    return replace(hypernode, nodes=nodes, groups=frozenset(n for k, n in of if k == GROUP))


def spec(hypernode: HyperNode) -> Mapping[str, object]:
    """Return the `spec` of the object."""
    listed = [
        {"type": kind, "selector": {"exactMatch": {"name": name}}}
        for kind, name in members(hypernode)
    ]
    return {"tier": hypernode.tier, "tierName": hypernode.tier_name, "members": listed}


def _tiers(groups: Mapping[GroupPath, Group]) -> Mapping[GroupPath, int]:
    """Return one tier for all groups of a kind, above those of every kind inside them.

    Kinds that stand inside each other in both ways have no such tiers; each group then has its own
    height.
    """
    inside: dict[Kind, set[Kind]] = {kind: set(below) for kind, below in _KNOWN_NESTING.items()}
    for group in groups.values():
        below = {child.kind for child in group.children if isinstance(child, Group)}
        inside.setdefault(group.kind, set()).update(below)
    height: dict[Kind, int] = {}
    left = dict(inside)
    for kind in {below for kinds in inside.values() for below in kinds} - inside.keys():
        left[kind] = set()
    while left:
        ready = [kind for kind, below in left.items() if below <= height.keys()]
        # Kinds contain each other in both ways: there is no common tier, so each group has its
        # height.
        if not ready:
            return {path: group.tier for path, group in groups.items()}
        for kind in ready:
            height[kind] = 1 + max((height[below] for below in left.pop(kind)), default=0)
    return {path: height[group.kind] for path, group in groups.items()}
