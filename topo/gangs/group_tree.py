"""The PodGroups below a CompositePodGroup of Kubernetes as one gang: their order, and their ranks.

A CompositePodGroup is a group of groups: its children are PodGroups, which have the pods, or more
CompositePodGroups. kube-scheduler binds the whole tree or nothing, so its pods are one gang. Ranks
are numbered through the PodGroups from the first to the last: in each level by age, then by name.

    CompositePodGroup train, minGroupCount 2; PodGroups train-0 and train-1, each with minCount 4
    → 8 pods; pod 1 of train-1 has rank 5

Why ranks are stable: a PodGroup that is made later comes last, and minimum counts before a PodGroup
do not depend on later ones. Only groups of one second are ordered by name alone, so all groups have
to be there before their first pod; a tree that lacks some of the groups that it needs has no ranks.

Source: `k8s.io/api/scheduling/v1alpha3/types.go` of v0.37, `WorkloadMaxTemplateDepth`;
pkg/scheduler/schedule_one_podgroup.go, v1.37. Cost: O(groups of the tree).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from topo.model.errors import Refusal
from topo.model.ids import natural_key

MAX_DEPTH = 4
"""Levels of CompositePodGroups that Kubernetes lets a tree have."""
MAX_GROUPS = 4096
"""Groups of one tree that are numbered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeGroup:
    """One group of a tree: a PodGroup (`is_leaf`), or a CompositePodGroup.

    `least`: how many pods, or child groups, it needs at least. `topology_key`: the node label of
    which all of its pods need one value, empty for none.
    """

    name: str
    is_leaf: bool
    least: int
    is_gang: bool = True
    topology_key: str = ""
    created_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTree:
    """A whole tree: its root, the PodGroups in the order of ranks, and the levels in between."""

    root: TreeGroup
    leaves: tuple[TreeGroup, ...]
    between: tuple[TreeGroup, ...] = ()

    @property
    def pods(self) -> int:
        """The pods that start together."""
        return sum(each.least for each in self.leaves)

    def offset(self, name: str) -> int:
        """Return the rank of the first pod of a PodGroup of the tree."""
        offset = 0
        for each in self.leaves:
            if each.name == name:
                return offset
            offset += each.least
        raise KeyError(name)

    def misfit(self, name: str, pods_per_group: int) -> Refusal | None:
        """Return why groups of so many pods do not fit the PodGroup of this name; None if they do.

        No group has pods of two PodGroups, and what a constraint keeps together is one group.
        """
        for each in self.between:
            if each.topology_key:
                what = f"the CompositePodGroup {each.name} below {self.root.name} has a constraint"
                fix = "constrain the root, or the PodGroups: those are planned"
                return Refusal(what, "spec.schedulingConstraints", fix)
        leaf = next(each for each in self.leaves if each.name == name)
        if not leaf.is_gang:
            what = f"the PodGroup {name} is basic, which says no number of pods"
            return Refusal(what, "spec.schedulingPolicy", "give it a gang with a minCount")
        is_last = leaf is self.leaves[-1]
        if self.offset(name) % pods_per_group or (leaf.least % pods_per_group and not is_last):
            what = f"groups of {pods_per_group} pods do not fill the PodGroups up to {name}"
            fix = "give PodGroups a minCount that is a multiple of the pods of a group"
            return Refusal(what, "spec.schedulingPolicy.gang.minCount", fix)
        if leaf.topology_key and leaf.least > pods_per_group:
            what = f"the PodGroup {name} has a constraint and {leaf.least} pods, so it is one group"
            fix = f"ask for groups of {leaf.least} pods, or take the constraint away"
            return Refusal(what, "spec.schedulingConstraints", fix)
        return None


def group_tree(
    root: TreeGroup, children_of: Mapping[str, Iterable[TreeGroup]]
) -> GroupTree | Refusal | None:
    """Return the tree below a root, `children_of` each CompositePodGroup of its namespace by name.

    None while a group that it needs is not there. A refusal for a tree that has too many groups, or
    too many levels, as one that is its own ancestor has.
    """
    leaves: list[TreeGroup] = []
    between: list[TreeGroup] = []
    for depth, group in _walk(root, children_of, 1):
        is_too_deep = depth > MAX_DEPTH and not group.is_leaf
        if is_too_deep or len(leaves) + len(between) > MAX_GROUPS:
            what = f"the CompositePodGroup {root.name} has too many groups or levels below it"
            fix = f"give it at most {MAX_GROUPS} groups in {MAX_DEPTH} levels"
            return Refusal(what, "spec.parentCompositePodGroupName", fix)
        if group.is_leaf:
            leaves.append(group)
            continue
        if group is not root:
            between.append(group)
        if len(tuple(children_of.get(group.name, ()))) < max(1, group.least):
            return None
    return GroupTree(root=root, leaves=tuple(leaves), between=tuple(between))


def _walk(
    group: TreeGroup, children_of: Mapping[str, Iterable[TreeGroup]], depth: int
) -> Iterator[tuple[int, TreeGroup]]:
    """Yield a group and all below it with their depths, those too deep last."""
    yield depth, group
    if group.is_leaf or depth > MAX_DEPTH:
        return
    children = children_of.get(group.name, ())
    for child in sorted(children, key=lambda each: (each.created_s, natural_key(each.name))):
        yield from _walk(child, children_of, depth + 1)
