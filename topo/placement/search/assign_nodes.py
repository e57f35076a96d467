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

from collections import defaultdict, deque
from collections.abc import Mapping
from operator import attrgetter

from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity, Rooms
from topo.placement.job.allocation import Allocation
from topo.placement.job.plan import GroupsOnNodes, PlannedGroup, Pods
from topo.placement.view.free_view import FreeView

_Run = deque[tuple[NodeName, int, int]]
"""Nodes, with the pods that are not in a group yet, and their domains."""
_Dealt = tuple[Pods, tuple[int, ...]]
"""The pods of a group, and the domains that they come from."""


def planned_groups(capacity: Capacity, view: FreeView, allocation: Allocation) -> GroupsOnNodes:
    """The groups in index order, the tail last; O(nodes of the tier-1 domains used)."""
    shape = view.shape
    by_domain, order = _nodes_by_domain(capacity, view, allocation.tier1_pods)
    groups: list[PlannedGroup] = []
    tail: _Dealt | None = None
    loose: _Run = deque()
    for share in sorted(allocation.shares, key=attrgetter("domain")):
        pods = by_domain[share.domain]
        if share.groups * shape.k == len(pods) and not share.tail and not share.loose:
            # Each node takes a pod.
            home = (view.layout.ref(shape.tier, share.domain),)
            for at in range(0, len(pods), shape.k):
                one_each = tuple(pods[at : at + shape.k])
                groups.append(PlannedGroup(len(groups), False, one_each, home))
            continue
        run = deque([(name, count, share.domain) for name, count in pods])
        for _ in range(share.groups):
            groups.append(_group(view, len(groups), _next_pods(run, shape.k)))
        if share.tail:
            tail = _next_pods(run, shape.r)
        loose.extend(run)
    while len(groups) < shape.m:
        groups.append(_group(view, len(groups), _next_pods(loose, shape.k)))
    if shape.r:
        groups.append(_group(view, len(groups), tail or _next_pods(loose, shape.r)))
    return GroupsOnNodes(tuple(groups), tuple(order))


def _nodes_by_domain(
    capacity: Capacity, view: FreeView, tier1_pods: Mapping[int, int]
) -> tuple[Mapping[int, Rooms], list[int]]:
    """The nodes that take so many pods by domain of the group tier, and their places."""
    of, free = view.layout.of[view.shape.tier], view.slots.free_list
    by_domain: defaultdict[int, Rooms] = defaultdict(list)
    order: list[int] = []
    used = sorted(tier1_pods)
    for at, (rooms, places) in zip(used, capacity.rooms(used, view.slots), strict=True):
        if tier1_pods[at] == free[at]:
            by_domain[of[at]] += rooms
            order += places
        else:
            chosen = _chosen(capacity, view, rooms, (at, tier1_pods[at]))
            by_domain[of[at]] += [(rooms[i][0], pods) for i, pods in chosen]
            order += [places[i] for i, _ in chosen]
    return by_domain, order


def _group(view: FreeView, index: int, dealt: _Dealt) -> PlannedGroup:
    layout, shape, (pods, homes) = view.layout, view.shape, dealt
    domains = tuple([layout.ref(shape.tier, domain) for domain in homes])
    return PlannedGroup(index, index == shape.m, pods, domains)


def _chosen(
    capacity: Capacity, view: FreeView, rooms: Rooms, need: tuple[int, int]
) -> list[tuple[int, int]]:
    """Which rooms of a tier-1 domain take how many of some pods; `need` are the two.

    The least penalty first; then nodes already in use, the smallest that suffices or else the
    largest first; then by name. What is chosen comes in natural order.
    """
    at, pods = need
    slots = view.slots
    if len(rooms) == slots.free_list[at] and not slots.penalized and not slots.busy[at]:
        return [(i, 1) for i in range(pods)]
    ranked = sorted((*_rank(capacity, room), i) for i, room in enumerate(rooms))
    taken: dict[int, int] = {}
    for place, (penalty, empty, minus, i) in enumerate(ranked):
        if -minus < pods:
            taken[i] = -minus
            pods += minus
            continue
        # All behind this one are smaller: the last of its kind that still suffices is the best.
        fitting = [
            (-less, j)
            for worse, unused, less, j in ranked[place:]
            if (worse, unused) == (penalty, empty) and -less >= pods
        ]
        taken[min(fitting)[1]] = pods
        break
    return sorted(taken.items())


def penalty_of(capacity: Capacity, view: FreeView, at: int, pods: int) -> int:
    """The penalty of putting so many pods into a tier-1 domain."""
    ((rooms, _),) = capacity.rooms((at,), view.slots)
    penalty = 0
    for i, some in _chosen(capacity, view, rooms, (at, pods)):
        host = capacity.host(rooms[i][0])
        penalty += host.penalty * some if host else 0
    return penalty


def _rank(capacity: Capacity, room: tuple[NodeName, int]) -> tuple[int, bool, int]:
    name, slots = room
    host = capacity.host(name)
    return (host.penalty, capacity.free(name) == host.gpus, -slots) if host else (0, True, -slots)


def _next_pods(run: _Run, pods: int) -> _Dealt:
    """The next pods of a run, and the domains that they come from."""
    dealt: list[tuple[NodeName, int]] = []
    homes: dict[int, None] = {}
    while pods:
        name, there, domain = run.popleft()
        some = min(there, pods)
        if some < there:
            run.appendleft((name, there - some, domain))
        dealt.append((name, some))
        homes[domain] = None
        pods -= some
    return tuple(dealt), tuple(homes)
