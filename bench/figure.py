"""A measured figure: its value, how far it spreads, and the budget it is held against."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit that the value itself must keep; the spread is shown and not judged."""

    sense: Literal["≤", "≥"]
    limit: float

    def met_by(self, value: float) -> bool:
        """Whether the value keeps the limit."""
        return value <= self.limit if self.sense == "≤" else value >= self.limit


def at_most(limit: float) -> Budget:
    """A budget that larger values miss."""
    return Budget("≤", limit)


def at_least(limit: float) -> Budget:
    """A budget that smaller values miss."""
    return Budget("≥", limit)


@dataclass(frozen=True, slots=True)
class Measured:
    """A value out of samples; `low` and `high` are what `spread` says."""

    value: float
    low: float
    high: float
    spread: Literal["p10-p90", "p50-max", "min-max", "exact"]
    samples: int


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table; `note` says what a reader must know to read the value right."""

    name: str
    measured: Measured
    unit: str
    budget: Budget | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the budget is kept; None where there is none."""
        return None if self.budget is None else self.budget.met_by(self.measured.value)


def percentile(samples: Sequence[float], rank: float) -> float:
    """The nearest-rank percentile: the smallest sample that `rank` per cent are not above."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(rank / 100 * len(ordered)) - 1)]


def median(samples: Sequence[float]) -> Measured:
    """The median with p10 and p90, or with the extremes where there are fewer than ten samples."""
    low, middle, high = (percentile(samples, rank) for rank in (10, 50, 90))
    if len(samples) < 10:
        return Measured(middle, min(samples), max(samples), "min-max", len(samples))
    return Measured(middle, low, high, "p10-p90", len(samples))


def p99(samples: Sequence[float]) -> Measured:
    """The 99th percentile with the median and the worst sample."""
    return Measured(
        percentile(samples, 99), percentile(samples, 50), max(samples), "p50-max", len(samples)
    )


def mean(samples: Sequence[float]) -> Measured:
    """The mean with the extremes: for a load that is the sum of rare and frequent parts."""
    average = sum(samples) / len(samples)
    return Measured(average, min(samples), max(samples), "min-max", len(samples))


def worst(samples: Sequence[float]) -> Measured:
    """The largest sample with the extremes: for a limit that must hold at every moment."""
    return Measured(max(samples), min(samples), max(samples), "min-max", len(samples))


def exact(value: float) -> Measured:
    """A value that repeats exactly, such as a size, or that is had only once."""
    return Measured(value, value, value, "exact", 1)


def growth_exponent(times: Sequence[tuple[int, float]]) -> float:
    """The x of `time ~ size**x`: the slope of the least-squares line through the logarithms."""
    points = [(math.log(size), math.log(time)) for size, time in times]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    above = sum((x - mean_x) * (y - mean_y) for x, y in points)
    below = sum((x - mean_x) ** 2 for x, _ in points)
    return above / below
