"""Volcano's network-topology-aware scheduling with sub-groups, hypernodes scored by binpack.

Re-implemented from volcano.sh, "Network Topology Aware Scheduling" (hypernodes tier by tier, hard
mode, `subGroupPolicy`, score = (used + requested) / allocatable), and the guide on bin packing of
hypernodes at support.huaweicloud.com (CCE, cce_10_1129). The whole gang is tried in every
hypernode of a tier, lowest tier first. Volcano breaks ties at random; here the name does.

Example: two groups of 2 nodes; hypernode d1 has 4 of 6 nodes free, d2 all 6. Of 48 GPUs each 16
and 0 are used, 32 are asked for: the job in d1 scores (16 + 32) / 48, in d2 32 / 48; d1 takes it.
"""

from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.cluster import SlotsLeft, SlotView

_Trial = tuple[tuple[int, int], ...]
"""For each group the hypernode that it takes: (tier, domain)."""


def place(view: SlotView, request: Request) -> tuple[Pods, ...] | None:
    """Return the groups in rank order, or None; O(groups x domains) for each tier that is tried."""
    if view.group_tier is None:
        return None
    asked = request.pods * request.gpus_per_pod
    for tier in range(view.group_tier, view.tree.root + 1):
        trials = (
            (-_binpack(view, (tier, domain), asked), domain, trial)
            for domain, slots in enumerate(view.slots[tier])
            if slots >= request.pods and (trial := _gang(view, request, (tier, domain)))
        )
        best = min(trials, default=None)
        if best is not None:
            return _packed(view, request, best[2])
    return None


def _binpack(view: SlotView, where: tuple[int, int], asked: int) -> float:
    tier, domain = where
    cluster = view.cluster
    return (cluster.used[tier][domain] + asked) / max(1, cluster.gpus[tier][domain])


def _gang(view: SlotView, request: Request, where: tuple[int, int]) -> _Trial | None:
    """Return a hypernode for each group inside one, or None where one group finds none."""
    gang = _Gang(view, where)
    found = []
    for size in request.group_pods:
        group = gang.group(size)
        if group is None:
            return None
        found.append(group)
    return tuple(found)


class _Gang:
    """A dry run of one job in one hypernode, group after group."""

    def __init__(self, view: SlotView, where: tuple[int, int]) -> None:
        tier, domain = where
        self._view = view
        top = min(tier, view.group_tier or tier)
        self._candidates = [view.tree.inside(tier, domain, low) for low in range(1, top + 1)]
        self._placed: dict[tuple[int, int], int] = {}

    def group(self, size: int) -> tuple[int, int] | None:
        """The fullest hypernode of the lowest tier that holds so many pods, and takes them."""
        for tier, domains in enumerate(self._candidates, start=1):
            slots, placed = self._view.slots[tier], self._placed
            fits = [d for d in domains if slots[d] - placed.get((tier, d), 0) >= size]
            if fits:
                best = min(fits, key=lambda d: self._rank(tier, d, size))
                self._take(tier, best, size)
                return tier, best
        return None

    def _rank(self, tier: int, domain: int, size: int) -> tuple[float, int, int]:
        """Fullest first, then where most of the job is already, then by name."""
        here = self._placed.get((tier, domain), 0)
        asked = (here + size) * self._view.gpus_per_pod
        return -_binpack(self._view, (tier, domain), asked), -here, domain

    def _take(self, tier: int, domain: int, size: int) -> None:
        """Count the pods in the hypernode and in those around it."""
        tree = self._view.tree
        host = tree.inside(tier, domain, 0)[0]
        for level in range(tier, len(self._candidates) + 1):
            around = (level, tree.domain_of[level][host])
            self._placed[around] = self._placed.get(around, 0) + size


def _packed(view: SlotView, request: Request, trial: _Trial) -> tuple[Pods, ...]:
    """Nodes inside the hypernodes, by binpack too: used ones first."""
    left = SlotsLeft(view)
    hosts = view.tree.hosts
    used, gpus = view.cluster.used[0], view.cluster.gpus[0]
    groups = []
    for size, (tier, domain) in zip(request.group_pods, trial, strict=True):
        members = view.tree.inside(tier, domain, 0)
        order = sorted(members, key=lambda h: (-used[h] / max(1, gpus[h]), h))
        taken = left.fill(order, size)
        groups.append(tuple((hosts[host].name, pods) for host, pods in sorted(taken)))
    return tuple(groups)
