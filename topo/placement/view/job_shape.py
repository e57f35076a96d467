"""The shape of a job: its groups in slots, and the tiers in which they must be whole."""

from dataclasses import dataclass
from functools import lru_cache

from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.job.request import Request


@dataclass(frozen=True, slots=True)
class JobShape:
    """m groups of k pods and one of r pods, of `gpus` GPUs each, over T tiers.

    `tier` is the lowest tier at which some domain could hold a whole group if it were empty, 0
    where none could; a job without a whole group then goes by its tail. `canonical` pods are a
    canonical group, whole inside a domain of `canonical_tier`. `extra_domains` more than the fewest
    may be used where that leaves more of those.
    """

    gpus: int
    k: int
    m: int
    r: int
    tiers: int
    tier: int
    canonical: int
    canonical_tier: int
    largest: int
    extra_domains: int = 0

    @property
    def pods(self) -> int:
        """N: all pods of the job."""
        return self.m * self.k + self.r

    @property
    def whole_in(self) -> int:
        """The tier whose domains groups must not cross; the top one where none can hold a group."""
        return self.tier or self.tiers


def shape_of(capacity: CapacityView, request: Request, gpu_type: str) -> JobShape:
    """Return the shape of a request over the nodes of a type; O(1) between changes of nodes."""
    gpus, policy = request.gpus_per_pod, capacity.policy
    sizes = request.pods, gpus, request.pods_per_group
    peaks = capacity.peaks(gpu_type, gpus)
    return _shape(sizes, peaks, policy.canonical_gpus, policy.extra_domains)


@lru_cache(maxsize=1024)
def _shape(
    sizes: tuple[int, int, int], peaks: tuple[int, ...], canonical_gpus: int, extra_domains: int
) -> JobShape:
    """Return `sizes`: pods, GPUs of a pod, pods of a group."""
    pods, gpus, k = sizes
    wanted = canonical_gpus // gpus
    # Pods larger than a canonical group make one group each.
    canonical_tier = _lowest(peaks, wanted) if wanted else 0
    m, r = divmod(pods, k)
    return JobShape(
        gpus=gpus,
        k=k,
        m=m,
        r=r,
        tiers=len(peaks),
        # A job smaller than a group goes by its pods: it may fit where no whole group does.
        tier=_lowest(peaks, k) or (0 if m else _lowest(peaks, r)),
        canonical=wanted if canonical_tier else max(1, peaks[0]),
        canonical_tier=canonical_tier or 1,
        largest=peaks[-1],
        extra_domains=extra_domains,
    )


def _lowest(peaks: tuple[int, ...], slots: int) -> int:
    for tier, peak in enumerate(peaks, start=1):
        if peak >= slots:
            return tier
    return 0
