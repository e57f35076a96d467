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

from collections import deque
from operator import attrgetter

from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.allocation import Allocation
from topo.placement.job.plan import DomainRef, PlannedGroup, Pods
from topo.placement.view.free_view import FreeView

_Run = deque[tuple[NodeName, int, int]]
"""Nodes, with the pods that are not in a group yet, and their domains."""


def planned_groups(
    capacity: Capacity, view: FreeView, allocation: Allocation
) -> tuple[PlannedGroup, ...]:
    """The groups in index order, the tail last; O(nodes of the tier-1 domains used)."""
    shape = view.shape
    by_domain = _tier1_by_domain(view, allocation)
    whole: list[tuple[Pods, tuple[int, ...]]] = []
    tail: tuple[Pods, tuple[int, ...]] | None = None
    loose: _Run = deque()
    for share in sorted(allocation.shares, key=attrgetter("domain")):
        pods: list[tuple[NodeName, int]] = []
        for at in by_domain[share.domain]:
            pods += chosen_nodes(capacity, view, at, allocation.tier1_pods[at])
        if share.groups * shape.k == len(pods) and not share.tail and not share.loose:
            whole += _sliced(pods, shape.k, share.domain)
            continue
        run = deque([(name, count, share.domain) for name, count in pods])
        whole += [_next_pods(run, shape.k) for _ in range(share.groups)]
        if share.tail:
            tail = _next_pods(run, shape.r)
        loose.extend(run)
    while len(whole) < shape.m:
        whole.append(_next_pods(loose, shape.k))
    if shape.r:
        whole.append(tail or _next_pods(loose, shape.r))
    return tuple(
        [
            PlannedGroup(index, index == shape.m, pods, _refs(view, home))
            for index, (pods, home) in enumerate(whole)
        ]
    )


def _sliced(
    pods: list[tuple[NodeName, int]], k: int, domain: int
) -> list[tuple[Pods, tuple[int, ...]]]:
    """Groups of nodes that take a pod each."""
    home = (domain,)
    return [(tuple(pods[at : at + k]), home) for at in range(0, len(pods), k)]


def chosen_nodes(
    capacity: Capacity, view: FreeView, at: int, pods: int
) -> list[tuple[NodeName, int]]:
    """The nodes of a tier-1 domain that take so many pods, in natural order.

    The least penalty first; then nodes already in use, the smallest that suffices or else the
    largest first; then by name.
    """
    slots = view.slots
    hosts = capacity.nodes_with_slots(at, slots)
    if pods == slots.free_list[at]:
        return [(name, some) for name, some, _ in hosts]
    if len(hosts) == slots.free_list[at] and not slots.penalized and not slots.busy[at]:
        return [(name, 1) for name, _, _ in hosts[:pods]]
    ranked = sorted((*_rank(capacity, host), i) for i, host in enumerate(hosts))
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
    return [(hosts[i][0], taken[i]) for i in sorted(taken)]


def penalty_of(capacity: Capacity, view: FreeView, at: int, pods: int) -> int:
    """The penalty of putting so many pods into a tier-1 domain."""
    penalty = 0
    for name, some in chosen_nodes(capacity, view, at, pods):
        host = capacity.host(name)
        penalty += host.penalty * some if host else 0
    return penalty


def _rank(capacity: Capacity, found: tuple[NodeName, int, int]) -> tuple[int, bool, int]:
    name, slots, free_gpus = found
    host = capacity.host(name)
    return (host.penalty, free_gpus == host.gpus, -slots) if host else (0, True, -slots)


def _tier1_by_domain(view: FreeView, allocation: Allocation) -> dict[int, list[int]]:
    of = view.layout.of[view.shape.tier]
    found: dict[int, list[int]] = {}
    for at in sorted(allocation.tier1_pods):
        found.setdefault(of[at], []).append(at)
    return found


def _next_pods(run: _Run, pods: int) -> tuple[Pods, tuple[int, ...]]:
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


def _refs(view: FreeView, home: tuple[int, ...]) -> tuple[DomainRef, ...]:
    layout, tier = view.layout, view.shape.tier
    return tuple([layout.ref(tier, domain) for domain in home])
