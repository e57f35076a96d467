"""A rule that several schedulers share: the tightest domain that holds the rest, else the emptiest.

The same then holds inside of each.
"""

from collections.abc import Sequence

from topo.sim.baselines.cluster import SlotsLeft, Taken


def best_fit(free: Sequence[int], domains: Sequence[int], need: int) -> int | None:
    """The domain with least that still holds the need, else the one with most; None: all full."""
    fits = [d for d in domains if free[d] >= need]
    if fits:
        return min(fits, key=lambda d: (free[d], d))
    best = max(domains, key=lambda d: (free[d], -d), default=None)
    return best if best is not None and free[best] > 0 else None


def spread(left: SlotsLeft, place: tuple[int, int], pods: int) -> Taken:
    """(host, pods) for pods that fit in one domain: few lower domains, hosts in natural order."""
    tier, domain = place
    if tier == 1:
        return left.fill(left.tree.inside(1, domain, 0), pods)
    taken: Taken = []
    while pods > 0:
        children = left.tree.inside(tier, domain, tier - 1)
        child = best_fit(left.slots[tier - 1], children, pods)
        if child is None:
            break
        here = min(pods, left.slots[tier - 1][child])
        taken += spread(left, (tier - 1, child), here)
        pods -= here
    return sorted(taken)
