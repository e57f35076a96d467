"""Other schedulers' placement, re-implemented from what they document, to be measured against.

None of it is anybody's code; each file names its sources, and its tests are the worked examples
that the scheduler's own documentation publishes.
"""

from collections.abc import Mapping

from topo.sim.baselines import ascend, kueue, slurm, unaware, volcano
from topo.sim.baselines.cluster import Baseline

BASELINES: Mapping[str, Baseline] = {
    "kueue-best-fit": kueue.best_fit,
    "kueue-least-free": kueue.least_free,
    "volcano": volcano.place,
    "slurm-tree": slurm.tree,
    "slurm-block": slurm.block,
    "ascend": ascend.place,
    "first-fit": unaware.first_fit,
    "random": unaware.random_nodes,
}
STRICT = frozenset({"kueue-best-fit", "kueue-least-free", "volcano", "slurm-block", "ascend"})
"""Those that never split a group; the others know no groups at all."""
