"""The nodes of each GPU type, counted by tier-1 domain.

What is free on them is not counted here: that is `Capacity.slots`.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.eligible import eligible
from topo.placement.capacity.layout import Counts
from topo.placement.job.request import Eligibility

ANY_JOB = Eligibility()
"""What a job asks of its nodes that asks for nothing and tolerates no taints."""


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """The nodes of one GPU type. `nodes` and `open_gpus` run along the tier-1 domains.

    A node is open if it takes pods of a job that tolerates no taints. `sizes` is the number of
    nodes by the number of GPUs that they have.
    """

    gpu_type: str
    nodes: Counts
    open_gpus: Counts
    open_nodes: int
    sizes: Counter[int]

    @property
    def gpus(self) -> int:
        """GPUs of all nodes, open or not."""
        return sum(gpus * nodes for gpus, nodes in self.sizes.items())

    @property
    def usual_gpus(self) -> int:
        """The most frequent size of a node with GPUs; the larger of two that are equally so."""
        return max((nodes, gpus) for gpus, nodes in self.sizes.items() if gpus)[1]


def counted_nodes(capacity: Capacity) -> tuple[NodeCounts, ...]:
    """The counts of each GPU type that nodes have, in the order of the policy; O(nodes)."""
    domains = len(capacity.layout().domains)
    rows: dict[str, list[tuple[int, int, bool]]] = {name: [] for name in capacity.gpu_types()}
    for at in range(domains):
        for _, host, _ in capacity.members(at):
            if host.gpu_type in rows:  # else it has no GPUs, and neither has any of its type
                is_open = host.open and (not host.taints or eligible(host, ANY_JOB))
                rows[host.gpu_type].append((at, host.gpus, is_open))
    return tuple(_counts(gpu_type, domains, nodes) for gpu_type, nodes in rows.items())


def _counts(gpu_type: str, domains: int, nodes: list[tuple[int, int, bool]]) -> NodeCounts:
    """The counts of nodes given as (tier-1 domain, GPUs, open or not)."""
    at, gpus, is_open = np.array(nodes, np.int64).T
    open_gpus = np.bincount(at, gpus * is_open, domains).astype(np.int64)
    sizes = Counter(gpus.tolist())
    return NodeCounts(
        gpu_type, np.bincount(at, minlength=domains), open_gpus, int(is_open.sum()), sizes
    )
