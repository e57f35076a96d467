"""What the operator decides about placement, once for all requests."""

from dataclasses import dataclass

from topo.model.ids import GroupPath

CANONICAL_GPUS = 64
"""The group size whose whole free groups are preserved: 8 nodes of 8 GPUs, the manual's example."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`canonical_gpus` is the group whose whole copies are kept for the next job.

    Where no domain of any tier can hold so many, the largest tier-1 group's size counts instead.
    `reserves` keep groups of that size free, by path: they are used only when nothing else fits.
    `gpu_types` come first in this order when a job names no type, the others by natural name.
    """

    canonical_gpus: int = CANONICAL_GPUS
    reserves: tuple[tuple[GroupPath, int], ...] = ()
    gpu_types: tuple[str, ...] = ()
