"""Other schedulers' placement, re-implemented from what they document, to be measured against.

Each is a file with `place(capacity, request)`. None of it is anybody's code; each file names its
sources, and its tests are the worked examples that the scheduler's own documentation publishes.
"""

from collections.abc import Callable, Mapping

from topo.placement.capacity.capacity import Capacity
from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines import (
    ascend,
    at_random,
    first_fit,
    kueue_best_fit,
    kueue_least_free,
    slurm_block,
    slurm_tree,
    volcano,
)
from topo.sim.baselines.scene import Choice

Baseline = Callable[[Capacity, Request], tuple[Pods, ...] | None]

CHOICES: Mapping[str, Choice] = {
    "kueue-best-fit": kueue_best_fit.choose,
    "kueue-least-free": kueue_least_free.choose,
    "volcano": volcano.choose,
    "slurm-tree": slurm_tree.choose,
    "slurm-block": slurm_block.choose,
    "ascend": ascend.choose,
    "first-fit": first_fit.choose,
    "random": at_random.choose,
}
"""The policies on a scene that is kept by increments, as streams use them."""

BASELINES: Mapping[str, Baseline] = {
    "kueue-best-fit": kueue_best_fit.place,
    "kueue-least-free": kueue_least_free.place,
    "volcano": volcano.place,
    "slurm-tree": slurm_tree.place,
    "slurm-block": slurm_block.place,
    "ascend": ascend.place,
    "first-fit": first_fit.place,
    "random": at_random.place,
}
"""The same on a capacity as it is now."""

STRICT = frozenset({"kueue-best-fit", "kueue-least-free", "volcano", "slurm-block", "ascend"})
"""Those that never split a group; the others know no groups at all."""
