"""From pods in cells to pods on nodes, in rank order: rank neighbours are near each other."""

from collections import deque
from collections.abc import Iterable, Iterator

from topo.model.ids import NodeName
from topo.placement.capacity import Capacity
from topo.placement.draft import Draft
from topo.placement.field import Field
from topo.placement.plan import DomainRef, PlannedGroup, Pods
from topo.placement.slots import ELIGIBLE

_Run = deque[tuple[NodeName, int, int]]
"""Nodes with the pods that are still to be dealt from them, and their domains."""


def planned(capacity: Capacity, field: Field, draft: Draft) -> tuple[PlannedGroup, ...]:
    """The groups in index order, the tail last; O(nodes of the cells used)."""
    shape = field.shape
    by_domain = _cells_by_domain(field, draft)
    whole: list[Pods] = []
    tail: Pods | None = None
    loose: _Run = deque()
    homes: list[tuple[int, ...]] = []
    tail_home: tuple[int, ...] = ()
    for share in sorted(draft.shares, key=lambda share: share.domain):
        run: _Run = deque()
        for at in by_domain[share.domain]:
            run.extend(
                (name, pods, share.domain)
                for name, pods in chosen(capacity, field, at, draft.cells[at])
            )
        for _ in range(share.groups):
            whole.append(_dealt(run, shape.k)[0])
            homes.append((share.domain,))
        if share.tail:
            tail, tail_home = _dealt(run, shape.r)[0], (share.domain,)
        loose.extend(run)
    while len(whole) < shape.m:
        pods, home = _dealt(loose, shape.k)
        whole.append(pods)
        homes.append(home)
    if shape.r and tail is None:
        tail, tail_home = _dealt(loose, shape.r)
    groups = [
        PlannedGroup(index, tail=False, pods=pods, domains=_refs(field, home))
        for index, (pods, home) in enumerate(zip(whole, homes, strict=True))
    ]
    if tail is not None:
        groups.append(PlannedGroup(shape.m, tail=True, pods=tail, domains=_refs(field, tail_home)))
    return tuple(groups)


def chosen(capacity: Capacity, field: Field, at: int, pods: int) -> Iterable[tuple[NodeName, int]]:
    """The nodes of a cell that take so many pods, in natural order.

    The least penalty first; then nodes already in use, the smallest that suffices or else the
    largest first; then by name.
    """
    gpus, mask = field.shape.gpus, field.slots.mask
    hosts = [
        (host, room // gpus, room)
        for host_id, host, room in capacity.members(at)
        if room >= gpus and mask[host_id] == ELIGIBLE
    ]
    if pods == field.slots.free[at]:
        return [(host.name, slots) for host, slots, _ in hosts]
    if len(hosts) == field.slots.free_list[at] and not field.slots.marked and field.idle[at]:
        return [(host.name, 1) for host, _, _ in hosts[:pods]]
    ranked = sorted(
        (host.penalty, room == host.gpus, -slots, i) for i, (host, slots, room) in enumerate(hosts)
    )
    taken: dict[int, int] = {}
    for place, (penalty, empty, minus, i) in enumerate(ranked):
        if -minus < pods:
            taken[i] = -minus
            pods += minus
            continue
        # All behind this one are smaller: the last of its kind that still suffices is the best.
        fitting = [
            (-slots, j)
            for worse, unused, slots, j in ranked[place:]
            if (worse, unused) == (penalty, empty) and -slots >= pods
        ]
        taken[min(fitting)[1]] = pods
        break
    return [(hosts[i][0].name, taken[i]) for i in sorted(taken)]


def _cells_by_domain(field: Field, draft: Draft) -> dict[int, list[int]]:
    of = field.layout.of[field.shape.tier]
    found: dict[int, list[int]] = {}
    for at in sorted(draft.cells):
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


def _refs(field: Field, home: Iterable[int]) -> tuple[DomainRef, ...]:
    return tuple(_each(field, home))


def _each(field: Field, home: Iterable[int]) -> Iterator[DomainRef]:
    for domain in home:
        yield field.layout.ref(field.shape.tier, domain)
