"""The nodes of one GPU type as arrays: what a report counts, at every tier at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topo.model.ids import Kind
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.eligible import eligible
from topo.placement.capacity.host import Host
from topo.placement.capacity.layout import Counts, Layout
from topo.placement.job.request import Eligibility

Mask = NDArray[np.bool_]
_ANYONE = Eligibility()


@dataclass(frozen=True, slots=True)
class Tier:
    """The domains of one tier: the number of the domain of each node, the kind of each domain."""

    domain_of: Counts
    kinds: tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Census:
    """`tiers` runs from 1, closest to the nodes, to the top; arrays run over the nodes.

    `open`: takes pods of a job that tolerates no taints. `free` counts GPUs, 0 where not open.
    """

    gpu_type: str
    gpus: Counts
    free: Counts
    open: Mask
    tiers: tuple[Tier, ...]

    def total(self, per_node: Counts, tier: int) -> Counts:
        """What the nodes have together, by domain of the tier; O(nodes)."""
        at = self.tiers[tier - 1]
        return _summed(at.domain_of, per_node, len(at.kinds))

    def slots(self, pod_gpus: int, tier: int) -> Counts:
        """Room for pods of so many GPUs now, by domain; O(nodes)."""
        return self.total(self.free // pod_gpus, tier)

    def group_tier(self, pod_gpus: int, pods: int) -> int | None:
        """The lowest tier where some domain could hold so many pods if it were empty and open."""
        rooms = self.gpus // pod_gpus
        for tier in range(1, len(self.tiers) + 1):
            if self.total(rooms, tier).max(initial=0) >= pods:
                return tier
        return None

    def above(self, per_domain: Counts, tier: int, higher: int) -> Counts:
        """Counts of the domains of `tier`, summed by domain of a higher tier; O(nodes)."""
        low, high = self.tiers[tier - 1], self.tiers[higher - 1]
        parent = np.zeros(len(low.kinds), dtype=np.int64)
        parent[low.domain_of] = high.domain_of
        return _summed(parent, per_domain, len(high.kinds))


def censuses(capacity: Capacity) -> tuple[Census, ...]:
    """One census for each GPU type that there is, in the order of the policy; O(nodes x tiers)."""
    layout = capacity.layout()
    by_type: dict[str, list[tuple[int, Host, int]]] = {}
    for at in range(len(layout.cells)):
        for _, host, room in capacity.members(at):
            by_type.setdefault(host.gpu_type, []).append((at, host, room))
    return tuple(_census(layout, name, by_type[name]) for name in capacity.gpu_types())


def _census(layout: Layout, gpu_type: str, rows: Sequence[tuple[int, Host, int]]) -> Census:
    cells = np.array([at for at, _, _ in rows], dtype=np.int64)
    is_open = np.array([h.open and eligible(h, _ANYONE) for _, h, _ in rows], dtype=np.bool_)
    rooms = np.array([room for _, _, room in rows], dtype=np.int64)
    return Census(
        gpu_type=gpu_type,
        gpus=np.array([host.gpus for _, host, _ in rows], dtype=np.int64),
        free=np.where(is_open, rooms, 0),
        open=is_open,
        tiers=tuple(_tier(layout, tier, cells) for tier in range(1, layout.tiers + 1)),
    )


def _tier(layout: Layout, tier: int, cells: Counts) -> Tier:
    """Only domains that have nodes of the type count, so they are numbered anew."""
    domains, domain_of = np.unique(np.array(layout.of[tier])[cells], return_inverse=True)
    return Tier(domain_of, tuple(layout.ref(tier, int(domain)).kind for domain in domains))


def _summed(number_of: Counts, counts: Counts, numbers: int) -> Counts:
    return np.bincount(number_of, weights=counts, minlength=numbers).astype(np.int64)
