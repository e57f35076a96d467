"""Gangs of Kubernetes itself: its own topology placement beside ours, on whole and broken clusters.

A PodGroup of Kubernetes keeps one group in one domain. So a job of many groups is one job of ours,
and as many jobs, each with its PodGroup, without us.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bench.figure import Figure, exact
from bench.scale import CannotRunError, Progress, Scale
from bench.scheduling.runs import Stage, pod_groups_stage
from tests.e2e.controlplane import programs
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.jobs import BATCH_JOBS, PODS, WORDS, homes, taker

_GPUS, _SIZE, _MOST_PODS = 8, 16, 64
_BROKEN = 0.5
"""So many of the dragonflies have one node taken."""


def sizes(*counts: int) -> dict[str, Callable[[Scale, Progress], Iterator[Figure]]]:
    """A benchmark for each number of nodes, by name."""
    return {f"podgroups-{count}": partial(measure, count) for count in counts}


def measure(count: int, scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Times, whole groups and spans of the same pods, placed by us and by kube-scheduler alone."""
    if (reason := programs.why_not()) is not None:
        raise CannotRunError(reason)
    yield from asyncio.run(_seen(min(count, scale.schedule_nodes), progress))


async def _seen(count: int, progress: Progress) -> list[Figure]:
    progress(f"{count:,} nodes: a control plane with PodGroups starts")
    figures: list[Figure] = []
    async with pod_groups_stage(count) as made:
        await made.run(BATCH_JOBS, asking.batch_job("first", 2, _SIZE, gpus=_GPUS), 2, 2)
        for state in ("whole", "fragmented"):
            if state == "fragmented":
                await _break(made)
            figures += await _compared(made, state, min(_MOST_PODS, count // 8), progress)
    return figures


async def _compared(made: Stage, state: str, pods: int, progress: Progress) -> list[Figure]:
    group = _SIZE // _GPUS
    ours = await made.run(
        BATCH_JOBS, asking.batch_job(f"ours-{state}", pods, _SIZE, gpus=_GPUS), pods, group
    )
    progress(f"{state}: {pods} pods of ours are bound after {ours.bound_s:.2f} s")
    jobs = [_native(f"own-{state}-{at}", group, _SIZE) for at in range(pods // group)]
    own = await made.burst(BATCH_JOBS, jobs, group, group)
    progress(f"{state}: {pods} pods of kube-scheduler alone are bound after {own.bound_s:.2f} s")
    name = f"{state}: {pods} pods in {pods // group} groups"
    return [
        Figure(f"{name}: bound, whole groups with PodGroups", exact(ours.bound_s), "s"),
        Figure(f"{name}: bound, kube-scheduler's own placement", exact(own.bound_s), "s"),
        Figure(f"{name}: split groups, ours", exact(ours.split), ""),
        Figure(f"{name}: split groups, its own", exact(own.split), ""),
        Figure(f"{name}: switchboxes, ours", exact(ours.spans), ""),
        Figure(f"{name}: switchboxes, its own", exact(own.spans), ""),
    ]


def _native(name: str, pods: int, size: int) -> Any:
    return asking.batch_job(name, pods, size, gpus=_GPUS, **{WORDS.way: "native"})


async def _break(made: Stage) -> None:
    """Take a node of every second dragonfly."""
    flies: dict[str, str] = {}
    for node, fly in homes(made.plane.world, "dragonfly").items():
        flies.setdefault(fly, node)
    nodes = list(flies.values())
    for node in nodes[:: round(1 / _BROKEN)]:
        await made.plane.api.create(PODS, taker(f"taker-{node}", node, _GPUS))
    await asyncio.sleep(2.0)
