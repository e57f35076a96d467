"""Kueue's Topology-Aware Scheduling: the algorithm that both of its orders share.

Re-implemented from KEP-2724 ("Computing the assignment", "Two-level Topology Aware scheduling") in
github.com/kubernetes-sigs/kueue. A job is a pod set that prefers one domain above its groups, in
slices of one group that require the group's tier; a job of one group requires that tier. Slices
divide a pod set evenly, so a tail is a second pod set, placed after the first on its own.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.scene import Draft, View, in_ranks


class Offer(NamedTuple):
    """A domain, how many slices it could take, and the pods that it could take."""

    slices: int
    pods: int
    domain: int


Order = Callable[[Offer], tuple[int, ...]]
"""The order in which domains are used up: the algorithm's name."""
Counts = list[list[int]]
"""Slices by tier and domain, from the slice's tier up."""


def assigned(offers: Iterable[Offer], need: int, order: Order) -> list[tuple[int, int]] | None:
    """(domain, slices): each domain in turn gives all it has, the last is the tightest fit.

    None: all of them together have not enough.
    """
    ordered = sorted((offer for offer in offers if offer.slices), key=order)
    taken: list[tuple[int, int]] = []
    for index, offer in enumerate(ordered):
        if offer.slices >= need:
            last = min(
                (other for other in ordered[index:] if other.slices >= need),
                key=lambda other: other.slices,
            )
            return [*taken, (last.domain, need)]
        taken.append((offer.domain, offer.slices))
        need -= offer.slices
    return None


def chosen(view: View, request: Request, order: Order) -> tuple[Pods, ...] | None:
    """The groups of a job: its pod set of whole groups, then the one with its tail."""
    if view.group_tier is None:
        return None
    draft = view.draft()
    whole = request.whole_groups * request.pods_per_group
    taken: list[tuple[int, int]] = []
    for pods, size in ((whole, request.pods_per_group), (request.tail, request.tail)):
        if pods:
            found = _pod_set(draft, view.group_tier, (pods, size), order)
            if found is None:
                return None
            for host, count in found:
                draft.take(host, count)
            taken += found
    return in_ranks(view, taken, request)


def _pod_set(
    draft: Draft, tier: int, asked: tuple[int, int], order: Order
) -> list[tuple[int, int]] | None:
    """(host, pods) in natural order for so many pods in slices of a size."""
    pods, size = asked
    need = pods // size
    counts = _counted(draft, tier, size)
    start = tier if need == 1 else tier + 1
    level, shares = _entered(draft, counts, (start, tier, need), order)
    if shares is None:
        return None
    while level > tier:
        level -= 1
        pool = [c for domain, _ in shares for c in draft.tree.children[level + 1][domain]]
        offers = (Offer(counts[level][c], draft.slots[level][c], c) for c in pool)
        shares = assigned(offers, need, order) or []
    return sorted(
        taken
        for domain, slices in shares
        for taken in _within(draft, (level, domain), slices * size, order)
    )


def _counted(draft: Draft, tier: int, size: int) -> Counts:
    """Slices that fit: by division at the slice's own tier, by adding up above it."""
    counts: Counts = [[] for _ in range(tier)]
    counts.append([slots // size for slots in draft.slots[tier]])
    for level in range(tier + 1, draft.tree.root):
        below = counts[-1]
        counts.append([sum(below[c] for c in inner) for inner in draft.tree.children[level]])
    return counts


def _entered(
    draft: Draft, counts: Counts, asked: tuple[int, int, int], order: Order
) -> tuple[int, list[tuple[int, int]] | None]:
    """The lowest tier at which one domain holds all, else the top tier's domains in their order.

    What requires the tier of its slice does not climb.
    """
    start, tier, need = asked
    top = draft.tree.root - 1
    for level in range(min(start, top), top + 1):
        offers = _offers(draft, counts, level)
        fits = [offer for offer in offers if offer.slices >= need]
        if fits:
            best = min(fits, key=lambda offer: (offer.slices, order(offer)))
            return level, [(best.domain, need)]
        if start == tier:
            return level, None
    return top, assigned(_offers(draft, counts, top), need, order)


def _offers(draft: Draft, counts: Counts, level: int) -> list[Offer]:
    slots = draft.slots[level]
    return [Offer(count, slots[d], d) for d, count in enumerate(counts[level]) if count]


def _within(draft: Draft, place: tuple[int, int], pods: int, order: Order) -> list[tuple[int, int]]:
    """(host, pods) inside one domain: below the slice every parent is split on its own, by pods."""
    level, domain = place
    if level == 0:
        return [(domain, pods)]
    slots = draft.slots[level - 1]
    offers = (Offer(slots[c], slots[c], c) for c in draft.tree.children[level][domain])
    return [
        taken
        for child, share in assigned(offers, pods, order) or ()
        for taken in _within(draft, (level - 1, child), share, order)
    ]
