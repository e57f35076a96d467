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

    `samples` changes of a GPU and `cables` new cables are followed in each of the fleet's phases at
    `samples_per_s`, the second phase under `churn_per_s` further changes. A steady load is watched
    for `windows` times `window_s` after `settle_s`.
    """

    nodes: int = 10_000
    growth: tuple[int, ...] = (1_000, 10_000, 100_000)
    builds: int = 5
    changes: int = 300
    load_runs: int = 3
    load_s: float = 5.0
    connections: int = 32
    workers: int = 1_000
    samples: int = 200
    cables: int = 50
    samples_per_s: float = 10.0
    churn_per_s: float = 100.0
    beat_s: float = 10.0
    settle_s: float = 10.0
    windows: int = 3
    window_s: float = 10.0
    real_workers: int = 3


FULL = Scale()
QUICK = Scale(
    nodes=60,
    growth=(20, 60),
    builds=2,
    changes=8,
    load_runs=1,
    load_s=0.3,
    connections=4,
    workers=60,
    samples=4,
    cables=2,
    samples_per_s=20.0,
    churn_per_s=20.0,
    beat_s=1.0,
    settle_s=0.5,
    windows=2,
    window_s=0.5,
    real_workers=1,
)
"""Everything runs once; the figures mean nothing."""
