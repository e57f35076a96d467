"""From pods in tier-1 domains to pods on nodes, in rank order.

Result: the nodes of each group, group by group. Pods that are neighbours in rank are near each
other in the tree, since groups are made domain by domain in natural order. Loose pods, those of
split groups, come last.

Inside a tier-1 domain no choice of nodes changes the objective but for penalties. So nodes
without a penalty come first, then nodes that are in use already, then the fullest node that
suffices.

Cost: a sort of the nodes of each tier-1 domain that is used.

Example: a domain with nodes a (4 free slots, empty), b (2 of 4) and c (1 of 4), 3 pods. In use
are b and c; b takes 2 pods, c takes 1, and a stays empty.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from itertools import accumulate, groupby
from operator import itemgetter

from topo.model.ids import NodeName
from topo.placement.capacity.capacity_view import CapacityView, NodeSlots
from topo.placement.job.plan import Allocation, DomainRef, GroupsOnNodes, PlannedGroup, Pods
from topo.placement.view import FreeView

_PODS = itemgetter(1)
_Loose = deque[tuple[NodeName, int, DomainRef]]
"""Nodes, with the pods that are not in a group yet, and their domains."""


def planned_groups(capacity: CapacityView, view: FreeView, allocation: Allocation) -> GroupsOnNodes:
    """Return the groups in index order, the tail last; O(nodes of the tier-1 domains used)."""
    layout, shape = view.layout, view.shape
    nodes, order = _taken_nodes(capacity, view, allocation.tier1_pods)
    deal = _Dealer(nodes, shape.pods).deal
    groups: list[PlannedGroup] = []
    tail: tuple[Pods, tuple[DomainRef, ...]] | None = None
    loose: _Loose = deque()
    for domain, whole, has_tail, loose_pods in sorted(allocation.shares):
        ref = layout.ref(shape.tier, domain)
        home = (ref,)
        for _ in range(whole):
            groups.append(PlannedGroup(len(groups), False, deal(shape.k), home))
        if has_tail:
            tail = deal(shape.r), home
        if loose_pods:
            loose.extend([(name, pods, ref) for name, pods in deal(loose_pods)])
    while len(groups) < shape.m:
        groups.append(PlannedGroup(len(groups), False, *_next_loose(loose, shape.k)))
    if shape.r:
        groups.append(PlannedGroup(shape.m, True, *(tail or _next_loose(loose, shape.r))))
    return GroupsOnNodes(tuple(groups), tuple(order))


def _taken_nodes(
    capacity: CapacityView, view: FreeView, tier1_pods: Mapping[int, int]
) -> tuple[NodeSlots, list[int]]:
    """Return the nodes that take so many pods of their tier-1 domains, and their places."""
    slots = view.usable
    nodes: NodeSlots = []
    order: list[int] = []
    for all_of_them, domains in groupby(
        sorted(tier1_pods), lambda at: tier1_pods[at] == slots.free_list[at]
    ):
        # Neighbours that are used up whole need no choice of nodes, and are read in one pass.
        if all_of_them:
            node_slots, places = capacity.slots_per_node(domains, slots)
            nodes += node_slots
            order += places
            continue
        for at in domains:
            node_slots, places = capacity.slots_per_node((at,), slots)
            chosen = _chosen(capacity, view, node_slots, (at, tier1_pods[at]))
            nodes += [(node_slots[i][0], pods) for i, pods in chosen]
            order += [places[i] for i, _ in chosen]
    return nodes, order


class _Dealer:
    """Deals nodes with so many pods in all, a group after the other."""

    def __init__(self, nodes: NodeSlots, pods: int) -> None:
        self._nodes, self._one_each = nodes, len(nodes) == pods
        self._ends = [] if self._one_each else [*accumulate(map(_PODS, nodes))]
        self._at = self._dealt = self._all = 0
        """The next node, the pods of it that are in a group already, and all pods that are."""

    def deal(self, pods: int) -> Pods:
        """Return the next pods."""
        if self._one_each:
            # One pod for each node: a group is a slice.
            first, self._at = self._at, self._at + pods
            return tuple(self._nodes[first : self._at])
        self._all += pods
        if not self._dealt:
            last = bisect_left(self._ends, self._all, self._at)
            if self._ends[last] == self._all:
                # The group ends with a node, as most do: it is a slice, too.
                first, self._at = self._at, last + 1
                return tuple(self._nodes[first : last + 1])
        found: list[tuple[NodeName, int]] = []
        while pods:
            name, there = self._nodes[self._at]
            some = min(there - self._dealt, pods)
            found.append((name, some))
            pods -= some
            self._dealt += some
            if self._dealt == there:
                self._at, self._dealt = self._at + 1, 0
        return tuple(found)


def _chosen(
    capacity: CapacityView, view: FreeView, node_slots: NodeSlots, need: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return which nodes of a tier-1 domain take how many pods; `need` is (domain, pods)."""
    at, pods = need
    slots, used = view.usable, capacity.used
    if len(node_slots) == slots.free_list[at] and not slots.penalized:
        if not slots.busy.item(at):
            return [(i, 1) for i in range(pods)]
        # Of nodes with a slot each those that are in use already come first.
        order = sorted(range(len(node_slots)), key=lambda i: not used(node_slots[i][0]))
        return [(i, 1) for i in sorted(order[:pods])]
    # Least penalty first, then nodes that are in use already, then the fullest.
    own = [each for _, each in node_slots]
    kinds = [int(not used(name)) for name, _ in node_slots]
    if slots.penalized:
        penalties = [capacity.penalty((node,)) // node[1] for node in node_slots]
        kinds = [2 * more + kind for more, kind in zip(penalties, kinds, strict=True)]
    ranked = sorted(range(len(own)), key=lambda i: (kinds[i], -own[i]))
    taken: list[tuple[int, int]] = []
    for place, i in enumerate(ranked):
        if own[i] < pods:
            taken.append((i, own[i]))
            pods -= own[i]
            continue
        # All behind this one are smaller: the last of its kind that still suffices is the best.
        fitting = [(own[j], j) for j in ranked[place:] if kinds[j] == kinds[i] and own[j] >= pods]
        taken.append((min(fitting)[1], pods))
        break
    taken.sort()
    return taken


def _next_loose(loose: _Loose, pods: int) -> tuple[Pods, tuple[DomainRef, ...]]:
    """Return the next pods of those, and the domains that they come from."""
    dealt: list[tuple[NodeName, int]] = []
    homes: dict[DomainRef, None] = {}
    while pods:
        name, there, domain = loose.popleft()
        some = min(there, pods)
        if some < there:
            loose.appendleft((name, there - some, domain))
        dealt.append((name, some))
        homes[domain] = None
        pods -= some
    return tuple(dealt), tuple(homes)
