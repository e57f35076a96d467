"""Streams of jobs, seeded: sizes from a mix or a trace, arrivals at an offered load."""

import csv
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from topo.model.errors import BadInputError, Refusal
from topo.placement.fragmentation import ASSUMED_SIZES
from topo.placement.job.request import Request
from topo.sim.worlds.clusters import GROUP_GPUS, NODE_GPUS

TAIL_GPUS = 96
"""A job of one whole group and half of one."""
MEDIAN_S = 1800.0
SIGMA = 1.0
"""Durations are log-normal: half an hour in the middle, 49 minutes on average."""

Sizes = tuple[tuple[int, float], ...]
"""GPUs of a job and how often it comes."""

LLM: Sizes = tuple(
    (gpus, weight) for gpus, weight in ASSUMED_SIZES if gpus <= GROUP_GPUS or not gpus % GROUP_GPUS
)
"""The mix that loads the seeded clusters, without its jobs that have a tail."""
PHILLY_X8: Sizes = ((8, 80), (16, 6), (32, 7), (64, 6), (128, 1))
"""Philly-like (ATC'19): four of five jobs are the smallest; a GPU there is a node of 8 here."""
UNEVEN: Sizes = (
    (8, 30), (16, 15), (24, 5), (32, 10), (40, 3), (48, 3), (64, 10), (72, 3), (96, 5), (104, 2),
    (128, 5), (160, 3), (200, 2), (256, 2), (320, 1),
)  # fmt: skip
"""Sizes that nobody rounded to whole groups: half of the jobs above a group have a tail. Invented,
after what public job lists have in common."""
MIXES: Mapping[str, Sizes] = {
    "llm": LLM,
    "llm-tails": (*LLM, (TAIL_GPUS, sum(weight for _, weight in LLM) / 49)),
    "philly-x8": PHILLY_X8,
    "uneven": UNEVEN,
}
"""`llm-tails` has a tail job among fifty: a whole group and a half of one."""


@dataclass(frozen=True, slots=True)
class StreamJob:
    """`gpus` is its size, and all that tells its request from others."""

    number: int
    arrival_s: float
    duration_s: float
    gpus: int
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """How many jobs come and how fast: `load` is the offered share of `capacity_gpus`."""

    jobs: int
    load: float
    capacity_gpus: int


def draw_jobs(sizes: Sizes, flow: Flow, seed: int) -> tuple[StreamJob, ...]:
    """Jobs of a mix: Poisson arrivals; the same seed, the same jobs whatever places them."""
    choice = random.Random(f"jobs {seed}")
    values, weights = zip(*sizes, strict=True)
    return _assign_times(choice.choices(values, weights, k=flow.jobs), flow, choice)


def replay_sizes(gpus: Sequence[int], flow: Flow, seed: int) -> tuple[StreamJob, ...]:
    """Jobs of a trace in its order, from the beginning again when it is over."""
    sizes = [gpus[number % len(gpus)] for number in range(flow.jobs)]
    return _assign_times(sizes, flow, random.Random(f"jobs {seed}"))


def request(gpus: int) -> Request:
    """One pod below a node's size, else pods of a node's 8 GPUs: one group, or groups of 64."""
    if gpus < NODE_GPUS:
        return Request(pods=1, gpus_per_pod=gpus)
    group_size = GROUP_GPUS if gpus > GROUP_GPUS else None
    pods = math.ceil(gpus / NODE_GPUS)
    return Request(pods=pods, gpus_per_pod=NODE_GPUS, group_size=group_size)


def read_pod_gpus(path: Path) -> tuple[int, ...]:
    """Return the whole GPUs of each pod of an openb pod list (columns `num_gpu`, `gpu_milli`).

    The format is that of cluster-trace-gpu-v2023 (github.com/alibaba/clusterdata). Raises
    `BadInputError` for a file that cannot be read or has no such pods.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInputError(Refusal(str(error), str(path), "give a CSV pod list")) from None
    sizes = []
    for line, row in enumerate(rows, start=2):
        try:
            if int(row["num_gpu"]) and int(row["gpu_milli"]) >= 1000:
                sizes.append(int(row["num_gpu"]))
        except (KeyError, TypeError, ValueError):
            where = f"{path}, line {line}"
            fix = "give columns num_gpu and gpu_milli with whole numbers"
            raise BadInputError(Refusal("no pod of an openb pod list", where, fix)) from None
    if not sizes:
        raise BadInputError(Refusal("no pod with whole GPUs", str(path), "give another list"))
    return tuple(sizes)


def _assign_times(sizes: Sequence[int], flow: Flow, choice: random.Random) -> tuple[StreamJob, ...]:
    mean_gpus = sum(sizes) / len(sizes)
    mean_s = MEDIAN_S * math.exp(SIGMA**2 / 2)
    per_s = flow.load * flow.capacity_gpus / (mean_gpus * mean_s)
    requests = {gpus: request(gpus) for gpus in set(sizes)}
    jobs, now_s = [], 0.0
    for number, gpus in enumerate(sizes):
        now_s += choice.expovariate(per_s)
        duration_s = choice.lognormvariate(math.log(MEDIAN_S), SIGMA)
        jobs.append(StreamJob(number, now_s, duration_s, gpus, requests[gpus]))
    return tuple(jobs)
