"""Kueue's Topology-Aware Scheduling, with the two orders in which it uses domains up.

Re-implemented from KEP-2724 ("Computing the assignment", "Two-level Topology Aware scheduling") in
github.com/kubernetes-sigs/kueue. A job is a pod set that prefers one domain above its groups, in
slices of one group that require the group's tier; a job of one group requires that tier. Slices
divide a pod set evenly, so a tail is a second pod set, placed after the first on its own.

BestFit, the emptiest domains first and the last one as tight as possible, is the default for
required and preferred topologies since Kueue 0.15. LeastFreeCapacity takes the fullest first
("Selecting the algorithm").

Example: a rack of nodes with room for 3, 3, 2 and 1 pods, and 7 pods. BestFit: 3 and 3, and for the
last pod the tightest node, 3 . 3 . - . 1. LeastFreeCapacity: 1, 2 and 3, and one pod of the last.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.cluster import SlotsLeft, SlotView, Taken, in_ranks

Shares = list[tuple[int, int]]
"""(domain, slices)."""


class Domain(NamedTuple):
    """A domain, how many slices it could take, and the pods that it could take."""

    slices: int
    pods: int
    domain: int


Order = Callable[[Domain], tuple[int, ...]]
"""The order in which domains are used up: the algorithm's name."""
Counts = list[list[int]]
"""Slices by tier and domain, from the slice's tier up."""


def assigned(domains: Iterable[Domain], need: int, order: Order) -> Shares | None:
    """Return each domain in turn gives all it has, the last is the tightest fit.

    None: all of them together have not enough.
    """
    ordered = sorted((domain for domain in domains if domain.slices), key=order)
    taken: Shares = []
    for index, domain in enumerate(ordered):
        if domain.slices >= need:
            last = min(
                (other for other in ordered[index:] if other.slices >= need),
                key=lambda other: other.slices,
            )
            return [*taken, (last.domain, need)]
        taken.append((domain.domain, domain.slices))
        need -= domain.slices
    return None


def best_fit(view: SlotView, request: Request) -> tuple[Pods, ...] | None:
    """Most slices first, then fewest pods, then by name; O(domains log domains)."""
    return _place(view, request, lambda domain: (-domain.slices, domain.pods, domain.domain))


def least_free(view: SlotView, request: Request) -> tuple[Pods, ...] | None:
    """Fewest slices first, then fewest pods, then by name; O(domains log domains)."""
    return _place(view, request, lambda domain: (domain.slices, domain.pods, domain.domain))


def _place(view: SlotView, request: Request, order: Order) -> tuple[Pods, ...] | None:
    """Return the groups of a job: its pod set of whole groups, then the one with its tail."""
    if view.group_tier is None:
        return None
    left = SlotsLeft(view)
    whole = request.whole_groups * request.pods_per_group
    taken: Taken = []
    for pods, size in ((whole, request.pods_per_group), (request.tail, request.tail)):
        if pods:
            found = _pod_set(left, view.group_tier, (pods, size), order)
            if found is None:
                return None
            for host, count in found:
                left.take(host, count)
            taken += found
    return in_ranks(view, taken, request)


def _pod_set(left: SlotsLeft, tier: int, asked: tuple[int, int], order: Order) -> Taken | None:
    """(host, pods) in natural order for so many pods in slices of a size."""
    pods, size = asked
    need = pods // size
    counts = _counted(left, tier, size)
    start = tier if need == 1 else tier + 1
    level, shares = _entered(left, counts, (start, tier, need), order)
    if shares is None:
        return None
    while level > tier:
        level -= 1
        pool = [c for domain, _ in shares for c in left.tree.inside(level + 1, domain, level)]
        domains = (Domain(counts[level][c], left.slots[level][c], c) for c in pool)
        shares = assigned(domains, need, order) or []
    return sorted(
        taken
        for domain, slices in shares
        for taken in _within(left, (level, domain), slices * size, order)
    )


def _counted(left: SlotsLeft, tier: int, size: int) -> Counts:
    """Slices that fit: by division at the slice's own tier, by adding up above it."""
    counts: Counts = [[] for _ in range(tier)]
    counts.append([slots // size for slots in left.slots[tier]])
    for level in range(tier + 1, left.tree.root):
        below, domains = counts[-1], range(len(left.slots[level]))
        inner = (left.tree.inside(level, domain, level - 1) for domain in domains)
        counts.append([sum(below[each.start : each.stop]) for each in inner])
    return counts


def _entered(
    left: SlotsLeft, counts: Counts, asked: tuple[int, int, int], order: Order
) -> tuple[int, Shares | None]:
    """The lowest tier at which one domain holds all, else the top tier's domains in their order.

    What requires the tier of its slice does not climb.
    """
    start, tier, need = asked
    top = left.tree.root - 1
    for level in range(min(start, top), top + 1):
        domains = _domains(left, counts, level)
        fits = [domain for domain in domains if domain.slices >= need]
        if fits:
            best = min(fits, key=lambda domain: (domain.slices, order(domain)))
            return level, [(best.domain, need)]
        if start == tier:
            return level, None
    return top, assigned(_domains(left, counts, top), need, order)


def _domains(left: SlotsLeft, counts: Counts, level: int) -> list[Domain]:
    slots = left.slots[level]
    return [Domain(count, slots[d], d) for d, count in enumerate(counts[level]) if count]


def _within(left: SlotsLeft, place: tuple[int, int], pods: int, order: Order) -> Taken:
    """(host, pods) inside one domain: below the slice every parent is split on its own, by pods."""
    level, domain = place
    if level == 0:
        return [(domain, pods)]
    slots = left.slots[level - 1]
    domains = (Domain(slots[c], slots[c], c) for c in left.tree.inside(level, domain, level - 1))
    return [
        taken
        for child, share in assigned(domains, pods, order) or ()
        for taken in _within(left, (level - 1, child), share, order)
    ]
