"""How broken up the free capacity is, and what that costs the next job."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from topo.model.errors import BadInputError, Refusal
from topo.model.ids import Kind
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.layout import Counts
from topo.placement.job.policy import CANONICAL_GPUS, Policy
from topo.placement.job.request import Request
from topo.placement.report.census import Census, censuses

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
"""Group sizes in GPUs for which the largest job is told."""


@dataclass(frozen=True, slots=True)
class JobShare:
    """Jobs of one shape and their weight among all jobs; weights need not sum up to anything."""

    pods: int
    gpus_per_pod: int
    group_size: int | None
    weight: float


def _assumed_share(gpus: int, weight: float) -> JobShare:
    if gpus < 8:
        return JobShare(1, gpus, None, weight)
    return JobShare(gpus // 8, 8, CANONICAL_GPUS, weight)


ASSUMED_SIZES: tuple[tuple[int, float], ...] = (
    (1, 18), (2, 8), (4, 8), (8, 26), (16, 11), (32, 9), (64, 9), (96, 1), (128, 5), (160, 1),
    (256, 3), (512, 1),
)  # fmt: skip
"""GPUs of a job and their weight: many small, few large, one in fifty with a tail. An assumption
that says so, no measurement; simulated jobs have the same sizes."""
DEFAULT_MIX = tuple(_assumed_share(gpus, weight) for gpus, weight in ASSUMED_SIZES)
"""The mix until jobs have been seen."""


@dataclass(frozen=True, slots=True)
class TierReport:
    """The domains of one tier and kind, by how much of their open nodes' GPUs is used.

    `closed`: no node open. `whole_groups`: free groups of the canonical size. `profile` has
    (free whole groups, domains that have so many), most groups first.
    """

    tier: int
    kind: Kind
    domains: int
    pristine: int
    partly_used: int
    full: int
    closed: int
    whole_groups: int
    profile: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LargestJob:
    """The most pods that fit now in groups of `group_size` GPUs, none of them split; GPUs of it.

    `tier` is the one whose domains hold such a group; None: no domain could hold it even if empty.
    """

    group_size: int
    gpus_per_pod: int
    pods: int
    gpus: int
    tier: int | None


@dataclass(frozen=True, slots=True)
class TypeReport:
    """What is free of one GPU type. `node_gpus`: GPUs of its usual node, and of a pod below.

    `group_gpus` is the canonical group; `integrity` the share of free GPUs in pods' slots that is
    in whole groups (1: nothing is broken up; also where nothing is free). `unusable_gpus`: of the
    free GPUs, how many a random job of the mix is expected to be unable to use.
    """

    gpu_type: str
    nodes: int
    open_nodes: int
    gpus: int
    free_gpus: int
    node_gpus: int
    group_gpus: int
    whole_groups: int
    integrity: float
    tiers: tuple[TierReport, ...]
    largest: tuple[LargestJob, ...]
    unusable_gpus: float


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """The report by GPU type, and the mix it was made for."""

    types: tuple[TypeReport, ...]
    mix: tuple[JobShare, ...]


def fragmentation(
    capacity: Capacity, sizes: Sequence[int] = SIZES, mix: Sequence[JobShare] = DEFAULT_MIX
) -> Fragmentation:
    """How whole the free capacity is, for each GPU type; jobs are taken to tolerate no taints.

    O(nodes x (tiers + sizes + shapes of the mix)). Group integrity and the canonical group are
    those of docs/placement.md; expected unusable GPUs follow Weng et al., "Beware of Fragmentation"
    (ATC'23, FGD), with a domain and a group of pods in the place of a node and a task. A size
    below 1 raises `BadInputError`.
    """
    if min(sizes, default=1) < 1:
        what = f"a group of {min(sizes)} GPUs"
        raise BadInputError(Refusal(what, "sizes", "give whole numbers from 1"))
    types = tuple(
        _of_type(census, capacity.policy, sizes, mix)
        for census in censuses(capacity)
        if census.gpus.any()
    )
    return Fragmentation(types, tuple(mix))


def mix_of(requests: Iterable[Request]) -> tuple[JobShare, ...]:
    """The mix that was asked for: each shape with how often it came, the most frequent first."""
    shapes = Counter((r.pods, r.gpus_per_pod, r.group_size) for r in requests)
    return tuple(JobShare(*shape, count) for shape, count in shapes.most_common())


def _of_type(
    census: Census, policy: Policy, sizes: Sequence[int], mix: Sequence[JobShare]
) -> TypeReport:
    node_gpus = _usual(census.gpus)
    group, tier = _canonical(census, policy.canonical_gpus, node_gpus)
    slots = census.slots(node_gpus, tier)
    groups = slots // group
    in_slots = int(slots.sum())
    return TypeReport(
        gpu_type=census.gpu_type,
        nodes=len(census.gpus),
        open_nodes=int(census.open.sum()),
        gpus=int(census.gpus.sum()),
        free_gpus=int(census.free.sum()),
        node_gpus=node_gpus,
        group_gpus=group * node_gpus,
        whole_groups=int(groups.sum()),
        integrity=group * int(groups.sum()) / in_slots if in_slots else 1.0,
        tiers=tuple(
            row
            for at in range(len(census.tiers), 0, -1)
            for row in _tier_reports(census, at, _by_domain(census, groups, tier, at))
        ),
        largest=tuple(_largest(census, gcd(node_gpus, size), size) for size in sizes),
        unusable_gpus=_unusable(census, mix),
    )


def _usual(gpus: Counts) -> int:
    """The most frequent size of a node that has GPUs, the larger of two that are equally so."""
    sizes, counts = np.unique(gpus[gpus > 0], return_counts=True)
    return int(sizes[len(counts) - 1 - int(counts[::-1].argmax())])


def _canonical(census: Census, gpus: int, pod_gpus: int) -> tuple[int, int]:
    """Slots of a canonical group and the tier whose domains hold it."""
    group = max(1, gpus // pod_gpus)
    tier = census.group_tier(pod_gpus, group)
    if tier is not None:
        return group, tier
    return int(census.total(census.gpus // pod_gpus, 1).max()), 1


def _by_domain(census: Census, groups: Counts, tier: int, at: int) -> Counts:
    """Whole groups by domain of tier `at`: a domain below a group's tier holds none."""
    if at >= tier:
        return census.above(groups, tier, at)
    return np.zeros(len(census.tiers[at - 1].kinds), dtype=np.int64)


def _tier_reports(census: Census, tier: int, groups: Counts) -> Iterable[TierReport]:
    open_gpus = census.total(np.where(census.open, census.gpus, 0), tier)
    free = census.total(census.free, tier)
    kinds = census.tiers[tier - 1].kinds
    of_kind = np.array(kinds)
    for kind in dict.fromkeys(kinds):
        mine = of_kind == kind
        room, left, whole = open_gpus[mine], free[mine], groups[mine]
        values, counts = np.unique(whole, return_counts=True)
        yield TierReport(
            tier=tier,
            kind=kind,
            domains=int(mine.sum()),
            pristine=int(((left == room) & (room > 0)).sum()),
            partly_used=int(((left > 0) & (left < room)).sum()),
            full=int(((left == 0) & (room > 0)).sum()),
            closed=int((room == 0).sum()),
            whole_groups=int(whole.sum()),
            profile=tuple(zip(values[::-1].tolist(), counts[::-1].tolist(), strict=True)),
        )


def _largest(census: Census, pod_gpus: int, group_size: int) -> LargestJob:
    """All whole groups there are, and the largest tail that fits beside them: none can be larger,
    since each domain holds its whole groups and one tail in one domain is all that may be besides.
    """
    k = group_size // pod_gpus
    tier = census.group_tier(pod_gpus, k)
    if tier is None:
        return LargestJob(group_size, pod_gpus, 0, 0, None)
    slots = census.slots(pod_gpus, tier)
    pods = int((slots // k).sum()) * k + int((slots % k).max())
    return LargestJob(group_size, pod_gpus, pods, pods * pod_gpus, tier)


def _unusable(census: Census, mix: Sequence[JobShare]) -> float:
    """Expected over the mix: free GPUs outside the groups that the job could have taken."""
    weight = sum(share.weight for share in mix)
    if not weight:
        return 0.0
    free = int(census.free.sum())
    return sum(s.weight * (free - _usable(census, s)) for s in mix) / weight


def _usable(census: Census, share: JobShare) -> int:
    """Free GPUs in whole groups of the job's size; 0 where the job does not fit at all."""
    request = Request(pods=share.pods, gpus_per_pod=share.gpus_per_pod, group_size=share.group_size)
    tier = census.group_tier(share.gpus_per_pod, request.pods_per_group)
    if tier is None and not request.whole_groups:
        tier = census.group_tier(share.gpus_per_pod, request.tail)
    if tier is None:
        return 0
    slots = census.slots(share.gpus_per_pod, tier)
    whole, tail = slots // request.pods_per_group, slots % request.pods_per_group
    if not _fits(request, int(whole.sum()), int(tail.max())):
        return 0
    group = min(request.pods_per_group, request.pods)
    return int((slots // group).sum()) * group * share.gpus_per_pod


def _fits(request: Request, groups: int, tail: int) -> bool:
    if groups == request.whole_groups:
        return tail >= request.tail
    return groups > request.whole_groups
