"""Placement beside other schedulers on streams of jobs: even clusters, and a real map.

The budgets are items 8 and 9 of placement's acceptance figures. Baselines are re-implementations
of documented behaviour (`topo.sim.baselines`), every policy gets the same jobs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from bench.figure import Budget, Figure, Measured, at_least, at_most, exact
from bench.processes import in_child
from bench.scale import Progress, Scale
from topo.placement.capacity.capacity import Capacity
from topo.sim.baselines import STRICT
from topo.sim.streams.figures import Figures, average
from topo.sim.streams.jobs import MIXES, Flow, draw_jobs
from topo.sim.streams.reservation import ReservingStream
from topo.sim.streams.stream import OURS, POLICIES, PREFERRED, Stream, run
from topo.sim.worlds import maps

GRIDS: Mapping[str, tuple[int, int, int]] = {
    "8": (10, 16, 8),
    "16": (10, 8, 16),
    "48": (4, 6, 48),
}
"""The three even clusters: top groups, domains in each, nodes in each."""
RESERVED: Mapping[str, tuple[int, int, int]] = {"2": (8, 16, 2), "16": (4, 4, 16)}
"""Even clusters on which the first big job that waits has a reservation; 64 GPUs are four domains,
and half of one."""
FIRST_SEED = 3_001
"""Streams count their seeds up from here."""
LINGJUN = Path(__file__).parents[3] / "shared" / "data" / "traces" / "lingjun_topo.csv"
"""The one public map of three tiers; not ours to copy, so measured only where it lies there."""
KUEUE, VOLCANO = "kueue-best-fit", "volcano"

Runs = Mapping[str, Sequence[Figures]]
"""The figures of each policy, one per seed, seeds in the same order everywhere."""


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Item 8 on three even clusters, with reservations on two, item 9 on the real map."""
    for shape in GRIDS:
        yield from _even(shape, scale, progress)
    for shape in RESERVED:
        yield from _reserved(shape, scale, progress)
    yield from _lingjun(scale, progress)


def _even(shape: str, scale: Scale, progress: Progress) -> Iterator[Figure]:
    seeds, jobs = scale.stream_seeds, scale.stream_jobs
    progress(f"domains of {shape}: {seeds} seeds x {jobs:,} jobs x {len(POLICIES)} policies")
    runs = in_child(on_grid, shape, ("llm", POLICIES), seeds, jobs)
    yield from _compared(f"domains of {shape}", shape, runs)
    for policy, figures in runs.items():
        yield _one(f"domains of {shape}, over-span of {policy}", figures)
    progress(f"domains of {shape}, with 2 % tails")
    tails = in_child(on_grid, shape, ("llm-tails", (OURS, KUEUE)), seeds, jobs)
    name = f"domains of {shape}, 2 % tails: over-span / {KUEUE}"
    yield _ratio(name, tails[OURS], tails[KUEUE], (_over_span, at_most(0.8)))


def on_grid(shape: str, what: tuple[str, Sequence[str]], seeds: int, jobs: int) -> Runs:
    """Every policy on the same streams at load 1.0; `what` is the mix and the policies."""
    mix, policies = what
    capacity = maps.capacity_of(maps.grid(*GRIDS[shape]))
    return _runs(capacity, (mix, 1.0), policies, (seeds, jobs))


def _reserved(shape: str, scale: Scale, progress: Progress) -> Iterator[Figure]:
    """What stays whole, and how long big jobs wait, where the first of them has a reservation."""
    seeds, jobs = scale.stream_seeds, scale.stream_jobs * 2 // 5
    where = f"reservation, domains of {shape}"
    progress(f"{where}: {seeds} seeds x {jobs:,} jobs")
    runs = in_child(on_reserved, shape, seeds, jobs)
    for policy, figures in runs.items():
        yield _one(f"{where}, over-span of {policy}", figures)
    ours = runs[OURS]
    judged = _integrity, at_least(-2)
    yield _difference(f"{where}: group integrity - {VOLCANO}", ours, runs[VOLCANO], judged)
    for other in (VOLCANO, KUEUE):
        name = f"{where}: big-job wait / {other}"
        yield _ratio(name, ours, runs[other], (_big_wait, at_most(1.15)))


def on_reserved(shape: str, seeds: int, jobs: int) -> Runs:
    """Jobs of which half have a tail, at load 0.95."""
    capacity = maps.capacity_of(maps.grid(*RESERVED[shape]))
    policies = OURS, VOLCANO, KUEUE
    return _runs(capacity, ("uneven", 0.95), policies, (seeds, jobs), queue=ReservingStream)


def on_lingjun(seeds: int, jobs: int) -> Runs:
    """Whole groups required and preferred on the real map, load 0.9, 2 % tails."""
    capacity = maps.capacity_of(maps.read_map(LINGJUN))
    return _runs(capacity, ("llm-tails", 0.9), (OURS, PREFERRED), (seeds, jobs))


def _runs(
    capacity: Capacity,
    load: tuple[str, float],
    policies: Sequence[str],
    size: tuple[int, int],
    *,
    queue: type[Stream] = Stream,
) -> Runs:
    seeds, jobs = size
    gpus = sum(host.gpus for host in capacity.hosts())
    flow = Flow(jobs=jobs, load=load[1], capacity_gpus=gpus)
    streams = [draw_jobs(MIXES[load[0]], flow, FIRST_SEED + seed) for seed in range(seeds)]
    return {
        policy: [run(capacity, jobs, policy, queue=queue) for jobs in streams]
        for policy in policies
    }


def _compared(where: str, shape: str, runs: Runs) -> Iterator[Figure]:
    """Item 8 without tails."""
    ours = runs[OURS]
    yield Figure(
        f"{where}: split groups",
        exact(max(each.split_groups_pct for each in ours)),
        "%",
        at_most(0),
    )
    for other, limit in (("slurm-block", 0.3), ("ascend", 0.3), (VOLCANO, 1.05)):
        name = f"{where}: over-span / {other}"
        yield _ratio(name, ours, runs[other], (_over_span, at_most(limit)))
    yield _difference(f"{where}: over-span - {KUEUE}", ours, runs[KUEUE], (_over_span, at_most(2)))
    floor = 1.0 if shape == "48" else -0.5
    yield _difference(
        f"{where}: group integrity - {KUEUE}", ours, runs[KUEUE], (_integrity, at_least(floor))
    )
    best = max(STRICT, key=lambda name: fmean(map(_allocated, runs[name])))
    yield _difference(
        f"{where}: allocation - {best}", ours, runs[best], (_allocated, at_least(-0.5))
    )
    best = min(STRICT, key=lambda name: fmean(map(_big_wait, runs[name])))
    yield _ratio(f"{where}: big-job wait / {best}", ours, runs[best], (_big_wait, at_most(1.1)))


def _lingjun(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Item 9."""
    if not LINGJUN.exists():
        progress(f"the Lingjun map is not at {LINGJUN}: left out")
        return
    seeds, jobs = max(1, scale.stream_seeds // 2), scale.stream_jobs * 3 // 5
    progress(f"the Lingjun map: {seeds} seeds x {jobs:,} jobs, required and preferred")
    runs = in_child(on_lingjun, seeds, jobs)
    ours, loose = runs[OURS], runs[PREFERRED]
    name = "Lingjun: allocation, preferred - required"
    yield _difference(name, loose, ours, (_allocated, at_least(5)))
    name = "Lingjun: big-job wait, required / preferred"
    yield _ratio(name, ours, loose, (_big_wait, at_least(10)))
    splits = [each.split_groups_pct for each in loose]
    value = Measured(fmean(splits), min(splits), max(splits), "min-max", len(splits))
    yield Figure("Lingjun: split groups, preferred", value, "%", at_most(15))


def _over_span(figures: Figures) -> float:
    return figures.over_span_pct


def _integrity(figures: Figures) -> float:
    return figures.gir_pct


def _allocated(figures: Figures) -> float:
    return figures.gar_pct


def _big_wait(figures: Figures) -> float:
    return figures.big_wait_min


_Judged = tuple[Callable[[Figures], float], Budget]


def _difference(
    name: str, ones: Sequence[Figures], others: Sequence[Figures], judged: _Judged
) -> Figure:
    """The mean of the paired differences, with its standard error."""
    read, budget = judged
    pairs = [read(one) - read(other) for one, other in zip(ones, others, strict=True)]
    value = Measured(fmean(pairs), min(pairs), max(pairs), "min-max", len(pairs))
    return Figure(name, value, "points", budget, f"paired seeds, s.e. {_error(pairs):.2f}")


def _ratio(
    name: str, ones: Sequence[Figures], others: Sequence[Figures], judged: _Judged
) -> Figure:
    """The ratio of the means; its spread is that of the single seeds where they have one."""
    read, budget = judged
    above, below = fmean(map(read, ones)), fmean(map(read, others))
    each = [read(a) / read(b) for a, b in zip(ones, others, strict=True) if read(b)]
    ratio = above / below if below else float(above > 0)
    low, high = (min(each), max(each)) if each else (ratio, ratio)
    value = Measured(ratio, low, high, "min-max", len(ones))
    return Figure(name, value, "x", budget, f"means {above:.3g} and {below:.3g}")


def _one(name: str, figures: Sequence[Figures]) -> Figure:
    mean = average(figures)
    spans = [each.over_span_pct for each in figures]
    value = Measured(mean.over_span_pct, min(spans), max(spans), "min-max", len(spans))
    note = (
        f"split groups {mean.split_groups_pct:.1f} %, integrity {mean.gir_pct:.1f} %, "
        f"allocation {mean.gar_pct:.1f} %, big-job wait {mean.big_wait_min:.1f} min"
    )
    return Figure(name, value, "%", None, note)


def _error(samples: Sequence[float]) -> float:
    return stdev(samples) / len(samples) ** 0.5 if len(samples) > 1 else 0.0
