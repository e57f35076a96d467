"""What the operator decides about placement, once for all requests."""

from dataclasses import dataclass

from topo.model.ids import GroupPath

DOMAIN = "metax-tech.com"
"""Prefix of the labels and resources (the vendor's domain: `metax-tech.com/dragonfly`)."""
OTHERS_SHARED = ("volcano.sh/vgpu-number", "tencent.com/vcuda-core")
"""Resources in which other people's device plugins share cards."""
CANONICAL_GPUS = 64
"""The group size whose whole free groups are preserved: 8 nodes of 8 GPUs, the manual's example."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`canonical_gpus` is the group whose whole copies are kept for the next job.

    Where no domain of any tier can hold so many, the largest tier-1 group's size counts instead.
    `reserves` keep groups of that size free, by path: they are used only when nothing else fits.
    `gpu_types` decide in this order between equal placements of a job that names no type; the
    others follow by natural name.
    A plan may use `extra_domains` more domains of a tier than the fewest where that leaves more
    whole groups.
    `gpu_resources` are the resources of a cluster's nodes that are whole GPUs, the first one that a
    node has counts; `shared_resources` are those in which cards are shared, the vendor's own
    first; `pool_penalties` order nodes by the usage pool that the cluster puts them in,
    and `usage_key` is the label and the taint that say which one. `hold_key` is the annotation of a
    pod that names the hold which was made for it.
    """

    canonical_gpus: int = CANONICAL_GPUS
    reserves: tuple[tuple[GroupPath, int], ...] = ()
    gpu_types: tuple[str, ...] = ()
    extra_domains: int = 0
    domain: str = DOMAIN
    gpu_resources: tuple[str, ...] = (f"{DOMAIN}/gpu", "nvidia.com/gpu")
    usage_key: str = f"{DOMAIN}/node.usage"
    hold_key: str = f"{DOMAIN}/hold"
    shared_resources: tuple[str, ...] = (f"{DOMAIN}/sgpu", *OTHERS_SHARED)
    pool_penalties: tuple[tuple[str, int], ...] = (("hybrid", 1),)
