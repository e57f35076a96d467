"""Jobs on real schedulers: from a job's creation until all of its pods are bound.

Everything runs on one machine: API server, schedulers and the client that looks take their part.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.figure import Figure, at_most, exact, median
from bench.scale import CannotRunError, Progress, Scale
from bench.scheduling.runs import LIMIT_S, Burst, Decisions, Run, Stage, stage
from tests.e2e.controlplane import programs
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.jobs import BATCH_JOBS, JOBS, WORDS

_GPUS = 8
_BURST_PODS, _BURST_SIZE = 8, 16
_CYCLE_S = 1.0
"""Of Volcano's scheduler, by default. The runs of a shape begin at times spread evenly over it."""


@dataclass(frozen=True, slots=True)
class Shape:
    """So many pods of 8 GPUs in groups of `size` GPUs; how often, and what it may take."""

    pods: int
    size: int
    samples: int
    budget_s: float

    @property
    def group_pods(self) -> int:
        """Pods of a group."""
        return self.size // _GPUS


SHAPES = (Shape(8, 64, 5, 1.5), Shape(64, 16, 3, 2.0), Shape(512, 16, 2, 10.0))


@dataclass(frozen=True, slots=True)
class Rival:
    """Who places: a scheduler of so-and-so named jobs, with groups asked of us or without."""

    name: str
    collection: str
    job: Callable[..., Any]
    asks: bool
    is_judged: bool = False


RIVALS = (
    Rival("whole groups on Volcano", JOBS, asking.volcano_job, asks=True, is_judged=True),
    Rival("plain Volcano", JOBS, asking.volcano_job, asks=False),
    Rival("whole groups on kube-scheduler", BATCH_JOBS, asking.batch_job, asks=True),
    Rival("plain kube-scheduler", BATCH_JOBS, asking.batch_job, asks=False),
)


def _native_job(name: str, pods: int, size: int | None) -> Any:
    return asking.volcano_job(name, pods, size, gpus=_GPUS, **{WORDS.way: "native"})


NATIVE = Rival("native Volcano", JOBS, _native_job, asks=True)
"""Volcano chooses, by our HyperNodes and the groups that the webhook writes on the PodGroup."""
NATIVE_SHAPES = (Shape(8, 64, 1, 0), Shape(64, 16, 1, 0), Shape(512, 16, 1, 0))


@dataclass(frozen=True, slots=True)
class Seen:
    """What one size of cluster showed."""

    runs: dict[tuple[Rival, Shape], list[Run]]
    burst: tuple[int, Burst]
    decisions: Decisions


def measure(count: int, scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Times of jobs on a cluster of so many nodes, beside the same jobs without us."""
    if (reason := programs.why_not()) is not None:
        raise CannotRunError(reason)
    count = min(count, scale.schedule_nodes)
    seen = asyncio.run(_seen(count, scale.burst_jobs, progress))
    for (rival, shape), runs in seen.runs.items():
        yield from of_runs(rival, shape, runs)
    yield from _of_burst(*seen.burst)
    found = seen.decisions
    name, mean_ms = "decision on a gang: mean", found.total_s / found.count * 1e3
    cpu_ms = found.cpu_s / found.count * 1e3
    note = f"{found.over_1_ms} of {found.count} took longer; {cpu_ms:.2f} ms of processor time"
    yield Figure(name, exact(mean_ms), "ms", at_most(1), note)


def sizes(*counts: int) -> dict[str, Callable[[Scale, Progress], Iterator[Figure]]]:
    """A benchmark for each number of nodes, by name."""
    return {f"schedule-{count}": partial(measure, count) for count in counts}


async def _seen(count: int, jobs: int, progress: Progress) -> Seen:
    progress(f"{count:,} nodes: a control plane with Volcano starts")
    async with stage(count) as made:
        await made.run(JOBS, asking.volcano_job("first", 2, 16), 2, 2)
        runs: dict[tuple[Rival, Shape], list[Run]] = {}
        for shape in (each for each in SHAPES if each.pods <= count):
            for rival in RIVALS:
                runs[rival, shape] = await _runs(made, rival, shape, progress)
        jobs = min(jobs, count // _BURST_PODS)
        progress(f"{jobs} jobs of {_BURST_PODS} pods at once")
        burst = await made.burst(
            JOBS,
            [asking.volcano_job(f"burst-{at}", _BURST_PODS, _BURST_SIZE) for at in range(jobs)],
            _BURST_PODS,
            _BURST_SIZE // _GPUS,
        )
        progress(f"all {burst.pods} pods are bound after {burst.bound_s:.1f} s")
        decisions = await made.decisions()
        made.show_hypernodes()
        # Jobs that a scheduler finds at its start are placed before it has read all HyperNodes.
        await made.run(JOBS, _native_job("first-native", 2, 16), 2, 2)
        for shape in (each for each in NATIVE_SHAPES if each.pods <= count):
            found = runs[NATIVE, shape] = await _runs(made, NATIVE, shape, progress)
            if found[-1].bound_s >= LIMIT_S:
                break  # a larger job would take longer
        return Seen(runs, (jobs, burst), decisions)


async def _runs(made: Stage, rival: Rival, shape: Shape, progress: Progress) -> list[Run]:
    runs = []
    count = shape.samples if rival.asks else 1 + shape.samples // 3
    for at in range(count):
        # The job before was seen bound right after a cycle of the scheduler.
        await asyncio.sleep(_CYCLE_S * at / count)
        name = f"{rival.name.replace(' ', '-').lower()}-{shape.pods}-{at}"
        job = rival.job(name, shape.pods, shape.size if rival.asks else None)
        run = await made.run(rival.collection, job, shape.pods, shape.group_pods)
        runs.append(run)
        progress(
            f"{rival.name}, {shape.pods} pods: "
            f"there from {run.first_s:.2f} to {run.there_s:.2f} s, opened {run.opened_s:.2f} s, "
            f"bound {run.bound_s:.2f} s, {run.split} of {run.groups} groups split, "
            f"{run.slipped} pods without a gate, master {run.cpu_s:.2f} s of a processor"
        )
    return runs


def of_runs(rival: Rival, shape: Shape, runs: Sequence[Run]) -> Iterator[Figure]:
    """The figures of the runs of one shape under one rival."""
    name = f"{rival.name}: {shape.pods} pods bound"
    budget = at_most(shape.budget_s) if rival.is_judged else None
    first, there = (median([run.first_s for run in runs]), median([run.there_s for run in runs]))
    note = f"the first pod there after {first.value:.2g} s, all after {there.value:.2g} s"
    if rival.asks and rival is not NATIVE:
        opened = median([run.opened_s for run in runs])
        note += f", all opened after {opened.value:.2g} s"
    if late := sum(1 for run in runs if run.bound_s >= LIMIT_S):
        note += f"; {late} of {len(runs)} not bound after {LIMIT_S:g} s"
    if slipped := sum(run.slipped for run in runs):
        note += f"; {slipped} pods made without a gate"
    split, groups = sum(run.split for run in runs), sum(run.groups for run in runs)
    yield Figure(name, median([run.bound_s for run in runs]), "s", budget, note)
    budget = at_most(0) if rival.asks else None
    name = f"{rival.name}: split groups of {shape.size} GPUs"
    yield Figure(name, exact(split), "", budget, f"of {groups}")
    if rival.asks:
        cpu_ms = median([run.cpu_s / shape.pods * 1e3 for run in runs])
        yield Figure(f"{rival.name}, {shape.pods} pods: master's CPU per pod", cpu_ms, "ms")


def _of_burst(jobs: int, burst: Burst) -> Iterator[Figure]:
    name = f"{jobs} jobs of {_BURST_PODS} pods at once"
    note = f"{burst.pods / burst.bound_s:.0f} pods/s, webhook and job controller included"
    yield Figure(f"{name}: all bound", exact(burst.bound_s), "s", None, note)
    yield Figure(f"{name}: split groups", exact(burst.split), "", at_most(0))
    cpu_ms = burst.cpu_s / burst.pods * 1e3
    yield Figure(f"{name}: master's CPU per pod", exact(cpu_ms), "ms")
