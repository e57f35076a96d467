"""How large and how long: the sizes of the budgets, and tiny ones that only show that it runs."""

from collections.abc import Callable
from dataclasses import dataclass

SEED = 20_260_211
"""Every choice at random is drawn from this seed, so two runs do the same."""

Progress = Callable[[str], None]
"""Told what is being done now."""


class CannotRunError(Exception):
    """A benchmark could not be run at all: the reason, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Sizes in nodes, workers and repetitions; times in seconds.

    So many `moments` of the tree are kept, an even number: the node that breaks is well at the end.
    `samples` changes of a GPU and `cables` new cables are followed in each of the fleet's phases at
    `samples_per_s`, the second phase under `churn_per_s` further changes, under which
    `placements_per_s` are asked for, too. A steady load is watched
    for `windows` times `window_s` after `settle_s`. Placement is timed on clusters of `placements`
    nodes, in runs of so many calls, and judged on so many `instances` of each kind.
    Streams have `stream_jobs` jobs each, one for each of `stream_seeds` seeds. A control plane is
    started for each of `kube_nodes`, and one in which a leader is killed for each of `kube_kills`.
    Jobs run on so many nodes as a benchmark's name says, or on `schedule_nodes` at most; of a burst
    there are `burst_jobs`. The page is opened in `visits` fresh browsers, and zoomed for so many
    `frames`.
    """

    nodes: int = 10_000
    growth: tuple[int, ...] = (1_000, 10_000, 100_000)
    builds: int = 5
    moments: int = 12
    changes: int = 300
    load_runs: int = 3
    load_s: float = 5.0
    connections: int = 32
    workers: int = 1_000
    samples: int = 200
    cables: int = 50
    samples_per_s: float = 10.0
    churn_per_s: float = 100.0
    placements_per_s: float = 500.0
    beat_s: float = 10.0
    settle_s: float = 10.0
    windows: int = 3
    window_s: float = 10.0
    real_workers: int = 3
    placements: tuple[int, ...] = (1_000, 10_000, 100_000)
    placement_runs: int = 5
    placement_calls: int = 40
    churn_calls: int = 2_000
    instances: int = 1_000
    stream_seeds: int = 12
    stream_jobs: int = 2_500
    kube_nodes: tuple[int, ...] = (1_000, 10_000)
    kube_kills: tuple[int, ...] = (1_000,)
    schedule_nodes: int = 10_000
    burst_jobs: int = 100
    visits: int = 5
    frames: int = 300


FULL = Scale()
QUICK = Scale(
    nodes=60,
    growth=(20, 60),
    builds=2,
    moments=2,
    changes=8,
    load_runs=1,
    load_s=0.3,
    connections=4,
    workers=60,
    samples=4,
    cables=2,
    samples_per_s=20.0,
    churn_per_s=20.0,
    placements_per_s=50.0,
    beat_s=1.0,
    settle_s=0.5,
    windows=2,
    window_s=0.5,
    real_workers=1,
    placements=(60, 120),
    placement_runs=2,
    placement_calls=2,
    churn_calls=20,
    instances=5,
    stream_seeds=1,
    stream_jobs=60,
    kube_nodes=(16,),
    kube_kills=(60,),
    schedule_nodes=16,
    burst_jobs=2,
    visits=1,
    frames=5,
)
"""Everything runs once; the figures mean nothing."""
