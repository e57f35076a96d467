"""How broken up the free capacity is, and what that costs the next job.

Finds for each GPU type: free whole groups by domain, the share of the free slots that lies in them
(integrity), the largest job of several group sizes, and how many free GPUs a random job cannot use.

Why it is right: everything is counted on the `FreeView` that a placement of such a job would
search, so that a report never calls whole what the engine would split. Group integrity and the
canonical group are those of docs/placement.md. Expected unusable GPUs follow Weng et al., "Beware
of Fragmentation" (ATC'23, FGD), with a domain and a group of pods in the place of a node and a
task: of the free GPUs, those outside the groups that a job of the mix could take, all of them where
it fits nowhere, averaged over the mix.

Cost: O(nodes), then O(domains) for each tier, size and shape of the mix.

Example: two dragonflies of 8 nodes x 8 GPUs, 8 and 5 of the nodes free; canonical group 64 GPUs.
    whole groups    8 // 8 + 5 // 8 = 1, on tier 1 as the profile ((1, 1), (0, 1))
    integrity       8 x 1 of 13 free slots: 0.62
    largest job     in groups of 32 GPUs (4 nodes): 2 + 1 groups and a tail of 1: 13 pods
    unusable GPUs   jobs of one node: 0 of 104; jobs of 64 GPUs: 104 - 64 = 40; half of each: 20
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from topo.model.errors import BadInputError, Refusal
from topo.model.rest.fragmentation import LargestDocument, ShareDocument, TierDocument, TypeDocument
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import is_eligible
from topo.placement.capacity.layout import Counts
from topo.placement.job.policy import CANONICAL_GPUS
from topo.placement.job.request import Eligibility, Request
from topo.placement.view import shape_of, short_of_groups, view_of

ANY_JOB = Eligibility()
"""What a job asks of its nodes that asks for nothing and tolerates no taints."""
SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
"""Group sizes in GPUs for which the largest job is told."""


def _assumed_share(gpus: int, weight: float) -> ShareDocument:
    if gpus < 8:
        return ShareDocument(1, gpus, None, weight)
    return ShareDocument(gpus // 8, 8, CANONICAL_GPUS, weight)


ASSUMED_SIZES: tuple[tuple[int, float], ...] = (
    (1, 18), (2, 8), (4, 8), (8, 26), (16, 11), (32, 9), (64, 9), (96, 1), (128, 5), (160, 1),
    (256, 3), (512, 1),
)  # fmt: skip
"""GPUs of a job and their weight: many small, few large, one in fifty with a tail. An assumption
that says so, no measurement; simulated jobs have the same sizes."""
DEFAULT_MIX = tuple(_assumed_share(gpus, weight) for gpus, weight in ASSUMED_SIZES)
"""The mix until jobs have been seen."""


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """The report by GPU type, and the mix it was made for."""

    types: tuple[TypeDocument, ...]
    mix: tuple[ShareDocument, ...]


def fragmentation(
    capacity: CapacityView, sizes: Sequence[int] = SIZES, mix: Sequence[ShareDocument] = DEFAULT_MIX
) -> Fragmentation:
    """Return how whole the free capacity is, for each GPU type; jobs are taken to tolerate no
    taints.

    A size below 1 raises `BadInputError`.
    """
    if min(sizes, default=1) < 1:
        what = f"a group of {min(sizes)} GPUs"
        raise BadInputError(Refusal(what, "sizes", "give whole numbers from 1"))
    types = tuple(_of_type(capacity, counts, sizes, mix) for counts in _counted_nodes(capacity))
    return Fragmentation(types, tuple(mix))


def mix_of(requests: Iterable[Request]) -> tuple[ShareDocument, ...]:
    """Return the mix that was asked for: each shape with how often it came, the most frequent
    first.
    """
    shapes = Counter((r.pods, r.gpus_per_pod, r.group_size) for r in requests)
    return tuple(ShareDocument(*shape, count) for shape, count in shapes.most_common())


@dataclass(frozen=True, slots=True)
class _NodeCounts:
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


def _counted_nodes(capacity: CapacityView) -> tuple[_NodeCounts, ...]:
    """Return the counts of each GPU type that nodes have, in the order of the policy; O(nodes)."""
    domains = len(capacity.layout().domains)
    rows: dict[str, list[tuple[int, int, bool]]] = {name: [] for name in capacity.gpu_types()}
    for at in range(domains):
        for _, host, _ in capacity.members(at):
            if host.gpu_type in rows:  # else it has no GPUs, and neither has any of its type
                is_open = host.is_open and is_eligible(host, ANY_JOB)
                rows[host.gpu_type].append((at, host.gpus, is_open))
    return tuple(_counts(gpu_type, domains, nodes) for gpu_type, nodes in rows.items())


def _counts(gpu_type: str, domains: int, nodes: list[tuple[int, int, bool]]) -> _NodeCounts:
    """Return the counts of nodes given as (tier-1 domain, GPUs, open or not)."""
    at, gpus, is_open = np.array(nodes, np.int64).T
    open_gpus = np.bincount(at, gpus * is_open, domains).astype(np.int64)
    sizes = Counter(gpus.tolist())
    return _NodeCounts(
        gpu_type, np.bincount(at, minlength=domains), open_gpus, int(is_open.sum()), sizes
    )


def _of_type(
    capacity: CapacityView, counts: _NodeCounts, sizes: Sequence[int], mix: Sequence[ShareDocument]
) -> TypeDocument:
    gpu_type, node_gpus = counts.gpu_type, counts.usual_gpus
    layout = capacity.layout()
    shape = shape_of(capacity, Request(pods=1, gpus_per_pod=node_gpus), gpu_type)
    slots = capacity.slots(ANY_JOB, gpu_type, node_gpus)
    groups = layout.rolled(slots.free, shape.canonical_tier) // shape.canonical
    whole = int(groups.sum())
    return TypeDocument(
        gpu_type=gpu_type,
        nodes=int(counts.nodes.sum()),
        open_nodes=counts.open_nodes,
        gpus=counts.gpus,
        free_gpus=slots.free_gpus,
        node_gpus=node_gpus,
        group_gpus=shape.canonical * node_gpus,
        whole_groups=whole,
        integrity=shape.canonical * whole / slots.total if slots.total else 1.0,
        tiers=tuple(
            row
            for tier in range(layout.tiers, 0, -1)
            for row in _tier_reports(capacity, counts, tier, (groups, shape.canonical_tier))
        ),
        largest=tuple(_largest(capacity, gpu_type, gcd(node_gpus, s), s) for s in sizes),
        unusable_gpus=_unusable(capacity, gpu_type, slots.free_gpus, mix),
    )


def _tier_reports(
    capacity: CapacityView, counts: _NodeCounts, tier: int, groups: tuple[Counts, int]
) -> Iterator[TierDocument]:
    """Yield a row for each kind of the tier's domains with nodes of the type; `closed`: none open.

    `groups` are the whole groups by domain of a tier, with that tier.
    """
    layout = capacity.layout()
    open_gpus = layout.rolled(counts.open_gpus, tier)
    free_gpus = layout.rolled(capacity.slots(ANY_JOB, counts.gpu_type, 1).free, tier)
    of_groups, group_tier = groups
    # A domain below the groups' own tier holds none.
    nested = tier >= group_tier
    whole_groups = layout.rolled(of_groups, tier, inner=group_tier) if nested else free_gpus * 0
    by_kind: dict[str, list[int]] = {}
    for domain in np.flatnonzero(layout.rolled(counts.nodes, tier)).tolist():
        by_kind.setdefault(layout.ref(tier, domain).kind, []).append(domain)
    for kind, domains in by_kind.items():
        there, free, whole = open_gpus[domains], free_gpus[domains], whole_groups[domains]
        values, times = np.unique(whole, return_counts=True)
        yield TierDocument(
            tier=tier,
            kind=kind,
            domains=len(domains),
            pristine=int(((free == there) & (there > 0)).sum()),
            partly_used=int(((free > 0) & (free < there)).sum()),
            full=int(((free == 0) & (there > 0)).sum()),
            closed=int((there == 0).sum()),
            whole_groups=int(whole.sum()),
            profile=tuple(zip(values[::-1].tolist(), times[::-1].tolist(), strict=True)),
        )


def _largest(
    capacity: CapacityView, gpu_type: str, pod_gpus: int, group_size: int
) -> LargestDocument:
    """Return the largest job in groups of a size: all whole groups, and the largest tail beside.

    No job can be larger: each domain holds its whole groups, and one tail in one domain is all that
    may be besides.
    """
    k = group_size // pod_gpus
    one_group = Request(pods=k, gpus_per_pod=pod_gpus, group_size=group_size)
    view = view_of(capacity, one_group, gpu_type)
    pods = 0
    if view.group_can_fit:
        pods = int((view.free_slots // k).sum()) * k + int((view.free_slots % k).max())
    return LargestDocument(
        group_size=group_size,
        gpus_per_pod=pod_gpus,
        pods=pods,
        gpus=pods * pod_gpus,
        tier=view.shape.tier if view.group_can_fit else None,
    )


def _unusable(
    capacity: CapacityView, gpu_type: str, free_gpus: int, mix: Sequence[ShareDocument]
) -> float:
    """Return expected over the mix: free GPUs outside the groups that the job could have taken."""
    weight = sum(share.weight for share in mix)
    if not weight:
        return 0.0
    return sum(s.weight * (free_gpus - _usable(capacity, gpu_type, s)) for s in mix) / weight


def _usable(capacity: CapacityView, gpu_type: str, share: ShareDocument) -> int:
    """Return free GPUs in whole groups of the job's size; 0 where the job does not fit at all."""
    job = Request(pods=share.pods, gpus_per_pod=share.gpus_per_pod, group_size=share.group_size)
    view = view_of(capacity, job, gpu_type)
    if not view.group_can_fit or short_of_groups(job, view):
        return 0
    group = min(view.shape.k, view.shape.pods)
    return int((view.free_slots // group).sum()) * group * share.gpus_per_pod
