"""A rule that several schedulers share: the tightest domain that holds the rest, else the emptiest.

The same then holds inside of each.
"""

from collections.abc import Sequence

from topo.sim.baselines.scene import Draft


def best_fit(free: Sequence[int], domains: Sequence[int], need: int) -> int | None:
    """The domain with least that still holds the need, else the one with most; None: all full."""
    fits = [d for d in domains if free[d] >= need]
    if fits:
        return min(fits, key=lambda d: (free[d], d))
    best = max(domains, key=lambda d: (free[d], -d), default=None)
    return best if best is not None and free[best] > 0 else None


def spread(draft: Draft, place: tuple[int, int], pods: int) -> list[tuple[int, int]]:
    """(host, pods) for pods that fit in one domain: few lower domains, hosts in natural order."""
    tier, domain = place
    if tier == 1:
        return draft.fill(draft.tree.members[1][domain], pods)
    taken: list[tuple[int, int]] = []
    while pods > 0:
        children = draft.tree.children[tier][domain]
        child = best_fit(draft.slots[tier - 1], children, pods)
        if child is None:
            break
        here = min(pods, draft.slots[tier - 1][child])
        taken += spread(draft, (tier - 1, child), here)
        pods -= here
    return sorted(taken)
