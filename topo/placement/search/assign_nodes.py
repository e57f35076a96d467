"""From pods in tier1_pods to pods on nodes, in rank order: rank neighbours are near each other."""

from collections import deque
from operator import attrgetter

from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.allocation import Allocation
from topo.placement.job.plan import DomainRef, PlannedGroup, Pods
from topo.placement.search.free_view import FreeView

_Run = deque[tuple[NodeName, int, int]]
"""Nodes with the pods that are still to be dealt from them, and their domains."""


def planned_groups(
    capacity: Capacity, view: FreeView, allocation: Allocation
) -> tuple[PlannedGroup, ...]:
    """The groups in index order, the tail last; O(nodes of the tier1_pods used)."""
    shape = view.shape
    by_domain = _tier1_by_domain(view, allocation)
    whole: list[tuple[Pods, tuple[int, ...]]] = []
    tail: tuple[Pods, tuple[int, ...]] | None = None
    loose: _Run = deque()
    for share in sorted(allocation.shares, key=attrgetter("domain")):
        pods: list[tuple[NodeName, int]] = []
        for at in by_domain[share.domain]:
            pods += chosen(capacity, view, at, allocation.tier1_pods[at])
        if share.groups * shape.k == len(pods) and not share.tail and not share.loose:
            whole += _sliced(pods, shape.k, share.domain)
            continue
        run = deque([(name, count, share.domain) for name, count in pods])
        whole += [_dealt(run, shape.k) for _ in range(share.groups)]
        if share.tail:
            tail = _dealt(run, shape.r)
        loose.extend(run)
    while len(whole) < shape.m:
        whole.append(_dealt(loose, shape.k))
    if shape.r:
        whole.append(tail or _dealt(loose, shape.r))
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


def chosen(capacity: Capacity, view: FreeView, at: int, pods: int) -> list[tuple[NodeName, int]]:
    """The nodes of a cell that take so many pods, in natural order.

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
    """The penalty of putting so many pods into a cell."""
    penalty = 0
    for name, some in chosen(capacity, view, at, pods):
        host = capacity.host(name)
        penalty += host.penalty * some if host else 0
    return penalty


def _rank(capacity: Capacity, found: tuple[NodeName, int, int]) -> tuple[int, bool, int]:
    name, slots, room = found
    host = capacity.host(name)
    return (host.penalty, room == host.gpus, -slots) if host else (0, True, -slots)


def _tier1_by_domain(view: FreeView, allocation: Allocation) -> dict[int, list[int]]:
    of = view.layout.of[view.shape.tier]
    found: dict[int, list[int]] = {}
    for at in sorted(allocation.tier1_pods):
        found.setdefault(of[at], []).append(at)
    return found


def _dealt(run: _Run, pods: int) -> tuple[Pods, tuple[int, ...]]:
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
