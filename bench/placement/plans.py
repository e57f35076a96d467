"""How good plans are at full size and how long they take, so that two versions can be compared.

`python -m bench.placement.plans NEW.json [--against OLD.json]` solves the same seeded instances at
every run, keeps the vector and the time of each, and counts how many are better, the same and worse
than in the run before. Run it in both working trees, and give the older file to the newer one.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import thread_time
from typing import Any

import orjson

from bench.discovery.core import Collector
from bench.figure import percentile
from bench.placement.instances import Instance, aligned, mixed
from bench.scale import SEED
from topo.placement.engine import place
from topo.placement.job.plan import Objective, Plan, Profile, first_difference
from topo.placement.job.request import Request
from topo.sim.worlds.clusters import NODE_GPUS, cluster

LARGE_SHAPES = ("2", "8", "16", "8+16")
"""Nodes of a tier-1 domain, the vendor's own shape first; "8+16" mixes two sizes."""
SMALL = "4 to 16, for the oracle"
"""The aligned and mixed instances of 60 to 260 nodes that the oracle judges."""
SIZES = (1_000, 10_000)
"""Nodes."""
_LOADS = (0.4, 0.6, 0.8)
_GROUP_PODS = (8, 8, 8, 4, 2)
_MOST_PODS = 512
_CALLS = 3
"""Calls of one instance. The least processor time counts, so that a busy machine tells little."""


@dataclass(frozen=True, slots=True)
class Solved:
    """What became of one instance. `vector` is None where the job does not fit.

    `proven` counts the leading numbers of the vector that are certified, of `numbers` in all.
    """

    vector: Objective | None
    proven: int
    numbers: int
    ms: float


@dataclass(frozen=True, slots=True)
class Compared:
    """Instances by verdict, and by the number of the vector at which two runs part."""

    better: Counter[str]
    worse: Counter[str]
    same: int


def solved(shape: str, nodes: int, instances: int) -> list[Solved]:
    """Seeded jobs on clusters of a shape."""
    Collector.AS_MASTER.prepare()
    return [_solved(asked) for asked in _instances(shape, nodes, instances)]


def _instances(shape: str, nodes: int, instances: int) -> Iterator[Instance]:
    if shape == SMALL:
        for seed in range(SEED, SEED + instances // 2):
            yield aligned(seed)
            yield mixed(seed)
        return
    for load in _LOADS:
        capacity = cluster(nodes, shape, load, SEED)
        choice = random.Random(f"{nodes} {shape} {load}")
        for _ in range(instances // len(_LOADS)):
            yield Instance(capacity, _request(choice))


def _request(choice: random.Random) -> Request:
    """Small jobs as often as large ones; a fifth has pods of half a node; most have a tail."""
    pods = int(_MOST_PODS ** choice.random())
    size = choice.choice(_GROUP_PODS)
    if choice.random() < 0.5:
        pods = -(-pods // size) * size
    gpus = NODE_GPUS if choice.random() < 0.8 else NODE_GPUS // 2
    return Request(pods=pods, gpus_per_pod=gpus, group_size=size * NODE_GPUS)


def _solved(asked: Instance) -> Solved:
    answer = place(asked.capacity, asked.request)
    times = []
    for _ in range(_CALLS):
        began = thread_time()
        place(asked.capacity, asked.request)
        times.append((thread_time() - began) * 1000)
    if not isinstance(answer, Plan):
        return Solved(None, 0, 0, min(times))
    sure = list(answer.certified.values())
    return Solved(answer.objective, sum(sure), len(sure), min(times))


def compared(old: Sequence[Solved], new: Sequence[Solved]) -> Compared:
    """Every instance of one run beside the same one of another. A plan is better than none."""
    better: Counter[str] = Counter()
    worse: Counter[str] = Counter()
    for before, after in zip(old, new, strict=True):
        if before.vector is None or after.vector is None:
            if before.vector != after.vector:
                (better if after.vector else worse)["fits"] += 1
            continue
        parted = first_difference(after.vector, before.vector)
        if parted is not None and parted[0] != "order":
            (better if parted[1] < 0 else worse)[parted[0]] += 1
    return Compared(better, worse, len(new) - better.total() - worse.total())


def main(argv: Sequence[str] | None = None) -> int:
    """Solves, prints a line for each kind of cluster and saves."""
    parser = argparse.ArgumentParser("python -m bench.placement.plans", description=__doc__)
    parser.add_argument("save", type=Path, help="where the vectors and times of this run go")
    parser.add_argument("--against", type=Path, help="what another run has saved")
    parser.add_argument("--instances", type=int, default=900, help="of each kind of cluster")
    options = parser.parse_args(argv)
    old = _read(options.against) if options.against else {}
    kept: dict[str, list[Any]] = {}
    kinds = [(260, SMALL), *((nodes, s) for nodes in SIZES for s in LARGE_SHAPES)]
    for nodes, shape in kinds:
        name = f"{nodes:,} nodes, domains of {shape}"
        found = solved(shape, nodes, options.instances)
        print(_line(name, found, old.get(name)), flush=True)
        kept[name] = [asdict(each) for each in found]
    options.save.write_bytes(orjson.dumps(kept))
    return 0


def _read(path: Path) -> Mapping[str, list[Solved]]:
    read: dict[str, list[dict[str, Any]]] = orjson.loads(path.read_bytes())
    return {
        name: [Solved(**row | {"vector": _vector(row["vector"])}) for row in rows]
        for name, rows in read.items()
    }


def _vector(read: Mapping[str, Any] | None) -> Objective | None:
    if read is None:
        return None
    values = dict(read)
    for name in ("span", "order"):
        values[name] = tuple(values[name])
    for name in ("profile_top", "profile_tier1"):
        values[name] = _profile(values[name])
    return Objective(**values)


def _profile(read: Sequence[Sequence[int]]) -> Profile:
    return tuple((capacity, change) for capacity, change in read)


def _line(name: str, found: Sequence[Solved], before: Sequence[Solved] | None) -> str:
    plans = [each for each in found if each.vector is not None]
    proven = sum(each.proven == each.numbers for each in plans)
    line = f"{name}: {len(plans)} plans, {proven} proven; {_times(found)}"
    if before is None:
        return line
    beside = compared(before, found)
    return (
        f"{line} (before: {_times(before)})\n"
        f"  better {beside.better.total()} {dict(beside.better)}, same {beside.same}, "
        f"worse {beside.worse.total()} {dict(beside.worse)}"
    )


def _times(found: Sequence[Solved]) -> str:
    times = [each.ms for each in found]
    mean = sum(times) / len(times)
    return f"mean {mean:.3f}, p50 {percentile(times, 50):.3f}, p99 {percentile(times, 99):.3f} ms"


if __name__ == "__main__":
    sys.exit(main())
