"""Random workloads in two queues of a cohort, by our engine and by Kueue: `make e2e-kueue`.

    ours       Kueue gives quota, then the master looks for whole groups
    held       the master books whole groups, then Kueue gives quota
    kueue's    Kueue looks for both, by its own topologies

Each way gets the same stream: jobs of 4 to 64 GPUs a group, an eighth of them of a high priority,
in two queues that lend to each other and take back by preemption. A second client reads the API
server again and again, and the run ends at once where

- a node has more GPUs taken than it has,
- the workloads that have quota in the cohort have more than both queues together, or those of one
  queue more than all of the cohort,
- a group of a job whose pods are all bound lies in several domains.

It ends with what was seen: how many jobs were bound, how long they waited, and over how many
switchboxes and dragonflies they lie beside the fewest that hold them.
"""

import argparse
import asyncio
import math
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.kueue.queues import (
    FLAVOR,
    GPU,
    PLAIN,
    RENDERING,
    WORKLOADS,
    WRITES,
    is_published,
    open_queue,
    plain_flavor,
    queued,
)
from tests.e2e.scheduling.admission_master import admission_master
from tests.e2e.scheduling.asking import batch_job
from tests.e2e.scheduling.gang_master import document
from tests.e2e.scheduling.jobs import BATCH_JOBS, PODS, WORDS, owner_of
from tests.e2e.scheduling.recount import Ground, Recount, Wish, ground
from tests.support.waiting import eventually
from topo.gangs.annotation_keys import ADMISSION_GATED_BY
from topo.sim.worlds.presets import World
from topo.sim.worlds.presets import world as made

OURS, HELD, KUEUES = "ours", "held", "kueue's"
WAYS = (OURS, HELD, KUEUES)
QUEUES = ("training", "research")
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_HIGH = "random-high"
_BOX_NODES = 16
_MOST_LIVE = 28
"""Jobs that wait or run at once."""
_LEAST_LIFE_S, _MOST_LIFE_S = 1.0, 3.0
_LOOK_S, _STUCK_S = 0.2, 300.0


def wishes(seed: int, count: int) -> Iterator[Wish]:
    """Jobs of whole groups, as both ways take them."""
    rng = random.Random(seed)  # noqa: S311 - the same jobs each time
    for at in range(count):
        gpus, size = rng.choice((8, 8, 8, 4)), rng.choice((16, 16, 32, 64))
        groups = max(1, round(rng.lognormvariate(math.log(1.3), 0.7)))
        pods = min(groups, 128 // size) * (size // gpus)
        yield Wish(
            name=f"random-{at}",
            pods=pods,
            gpus=gpus,
            size=size,
            required=True,
            is_high=rng.random() < 0.125,
        )


@dataclass
class Seen:
    """What came of the jobs of one way."""

    waits_s: list[float] = field(default_factory=list)
    boxes: int = 0
    fewest_boxes: int = 0
    flies: int = 0
    fewest_flies: int = 0
    preempted: int = 0
    most_quota: Counter[str] = field(default_factory=Counter)
    looks: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        waits = sorted(self.waits_s)
        tail = waits[int(len(waits) * 0.95)] if waits else math.nan
        return (
            f"{len(waits)} jobs were bound in {self.seconds:.0f} s; they waited"
            f" {statistics.median(waits):.1f} s (median), {tail:.1f} s (95 %);"
            f" {self.boxes} switchboxes where {self.fewest_boxes} are the fewest,"
            f" {self.flies} dragonflies where {self.fewest_flies} are;"
            f" {self.preempted} were preempted; most quota {dict(self.most_quota)};"
            f" {self.looks} looks, no group split, no quota exceeded"
        )


@dataclass(kw_only=True)
class WorkloadRun:
    """The stream of one way; `tell` is called now and then."""

    api: Api
    ground: Ground
    way: str
    quota: int
    tell: Callable[[str], None]
    _seen: Seen = field(default_factory=Seen)
    _made: dict[str, tuple[Wish, float]] = field(default_factory=dict)
    _ends_s: dict[str, float] = field(default_factory=dict)
    _evicted: set[str] = field(default_factory=set)

    async def go(self, jobs: Sequence[Wish]) -> Seen:
        """Return what was seen once all were bound; raise for what must not be."""
        rng, left = random.Random(2), list(reversed(jobs))  # noqa: S311
        began_s = moved_s = time.monotonic()
        while left or self._made:
            now_s = time.monotonic()
            count = min(len(left), _MOST_LIVE - len(self._made))
            new = [(left.pop(), rng.choice(QUEUES)) for _ in range(count)]
            await asyncio.gather(*(self._make(wish, queue) for wish, queue in new))
            for name in await self._look():
                moved_s = now_s
                self._ends_s[name] = now_s + rng.uniform(_LEAST_LIFE_S, _MOST_LIFE_S)
            ended = [each for each, at_s in self._ends_s.items() if at_s <= now_s]
            await asyncio.gather(*(self.api.delete(f"{BATCH_JOBS}/{name}") for name in ended))
            for name in ended:
                del self._ends_s[name], self._made[name]
            assert now_s - moved_s < _STUCK_S, f"nothing moves: {list(self._made)}"
            await asyncio.sleep(_LOOK_S)
        self._seen.seconds = time.monotonic() - began_s
        await eventually(self._is_empty)
        return self._seen

    async def _make(self, wish: Wish, queue: str) -> None:
        made = await self.api.create(BATCH_JOBS, self._job(wish, queue))
        assert self._goes_its_way(made), f"the webhook passed by {made['metadata']}"
        self._made[wish.name] = wish, time.monotonic()

    async def is_reviewed(self, wish: Wish) -> bool:
        """Whether the webhook answers, and as this way needs."""
        job = self._job(wish, QUEUES[0])
        return self._goes_its_way(await self.api.call("POST", BATCH_JOBS, job, dryRun="All"))

    def _goes_its_way(self, made: Any) -> bool:
        annotations = made["metadata"].get("annotations", {})
        is_held = WORDS.whole_groups in annotations.get(ADMISSION_GATED_BY, "")
        is_native = "podset-slice-size" in str(made["spec"]["template"]["metadata"])
        is_ours = WORDS.pods in str(made)
        return {OURS: is_ours and not is_held, HELD: is_held, KUEUES: is_native}[self.way]

    def _job(self, wish: Wish, queue: str) -> Any:
        native = {WORDS.way: "native"} if self.way == KUEUES else {}
        made = batch_job(wish.name, wish.pods, wish.size, gpus=wish.gpus, **native)
        if self.way == KUEUES:  # with two pods of one index, Kueue splits groups (docs/kueue.md)
            made["spec"]["podReplacementPolicy"] = "Failed"
        if wish.is_high:
            made["spec"]["template"]["spec"]["priorityClassName"] = _HIGH
        return queued(made, f"{queue}-{_short(self.way)}")

    async def _look(self) -> list[str]:
        """Judge what there is now; return the jobs that are newly bound as a whole."""
        all_pods, workloads = await asyncio.gather(self.api.items(PODS), self.api.items(WORKLOADS))
        found = Recount([pod for pod in all_pods if _counts(pod)], self.ground)
        assert not (over := found.overbooked()), f"more GPUs are taken than there are: {over}"
        self._judge_quota(workloads)
        self._seen.looks += 1
        new = []
        for name, nodes in found.bound(self._made.keys() - self._ends_s.keys()).items():
            wish, made_s = self._made[name]
            if len(nodes) == wish.pods:
                split = found.split(wish, nodes)
                assert not split, f"{name} {wish}: groups {split} are split: {nodes}"
                self._count(wish, nodes, time.monotonic() - made_s)
                new.append(name)
        return new

    def _judge_quota(self, workloads: Sequence[Any]) -> None:
        used: Counter[str] = Counter()
        for each in workloads:
            status = each.get("status", {})
            states = {c["type"]: c for c in status.get("conditions", ())}
            if states.get("Preempted", {}).get("status") == "True":
                self._evicted.add(each["metadata"]["uid"])
            admission = status.get("admission")
            if admission is None or states.get("Finished", {}).get("status") == "True":
                continue
            for assigned in admission["podSetAssignments"]:
                gpus = int(assigned["resourceUsage"].get(GPU, 0))
                used[admission["clusterQueue"]] += gpus
        total = sum(used.values())
        assert total <= 2 * self.quota, f"the cohort has {2 * self.quota} GPUs: {dict(used)}"
        self._seen.most_quota |= used
        self._seen.preempted = len(self._evicted)

    def _count(self, wish: Wish, nodes: Sequence[str], waited_s: float) -> None:
        used = {*nodes}
        for kind in ("switchbox", "dragonfly"):
            domains = [{*each} for each in self.ground.domains[kind]]
            room = max(sum(self.ground.room[node] for node in each) for each in domains)
            taken = sum(bool(each & used) for each in domains)
            fewest = math.ceil(wish.pods * wish.gpus / room)
            if kind == "switchbox":
                self._seen.boxes += taken
                self._seen.fewest_boxes += fewest
            else:
                self._seen.flies += taken
                self._seen.fewest_flies += fewest
        self._seen.waits_s.append(waited_s)
        if len(self._seen.waits_s) % 25 == 0:
            self.tell(f"{self.way}: {len(self._seen.waits_s)} bound")

    async def _is_empty(self) -> bool:
        return not await self.api.items(PODS) and not await self.api.items(WORKLOADS)


def _counts(pod: Any) -> bool:
    """Whether the pod is of a job and has not ended."""
    return bool(owner_of(pod)) and pod["status"].get("phase") not in {"Succeeded", "Failed"}


def _short(way: str) -> str:
    return way.partition("'")[0]


async def open_queues(api: Api, way: str, quota: int) -> None:
    """Make the two queues of one way, in a cohort of their own."""
    flavor = FLAVOR if way == KUEUES else PLAIN
    preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    for queue in QUEUES:
        name = f"{queue}-{_short(way)}"
        more: Mapping[str, Any] = {"cohortName": _short(way), "preemption": preemption}
        await open_queue(api, name, flavor, quota, **more)


async def run(
    cluster: Cluster,
    api: Api,
    world: World,
    home: Path,
    *,
    jobs: Sequence[Wish],
    tell: Callable[[str], None],
    ways: Sequence[str] = WAYS,
) -> dict[str, Seen]:
    """Return what came of the same jobs by each way, on one cluster, one after the other."""
    (home / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    await api.create(_CLASSES, {**head, "metadata": {"name": _HIGH}, "value": 1000})
    quota = len(world.nodes) * 8 // 2
    found = {}
    flags = (WRITES, f"--state-file={home / 'state'}")
    async with admission_master(cluster, api, home, *flags, rendering=RENDERING) as master:
        argv = master.program.argv
        on = await ground(api, await master.url())
        await eventually(lambda: is_published(api))
        await plain_flavor(api)
        for way in ways:
            master.stop()
            holds = "true" if way == HELD else "false"
            master.program.argv = (*argv, f"--hold-before-quota={holds}")
            master.start()
            await open_queues(api, way, quota)
            stream = WorkloadRun(api=api, ground=on, way=way, quota=quota, tell=tell)
            await eventually(lambda: stream.is_reviewed(jobs[0]))  # noqa: B023 - awaited here
            found[way] = await stream.go(jobs)
            tell(f"{way}: {found[way]}")
    return found


async def _run(options: argparse.Namespace, cluster: Cluster, home: Path) -> None:
    dragonflies = min(_BOX_NODES, options.nodes) // 2
    world = made(math.ceil(options.nodes / _BOX_NODES), dragonflies, 2, 8, stem="sample")
    began_s = time.monotonic()

    def tell(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began_s:7.1f} s  {text}\n")
        sys.stdout.flush()

    await cluster.start(world)
    tell(f"{len(world.nodes)} nodes are ready")
    jobs = list(wishes(options.seed, options.jobs))
    async with cluster.api() as api:
        ways = options.ways.split(",")
        await run(cluster, api, world, home, jobs=jobs, tell=tell, ways=ways)


def main() -> int:
    """The exit code: 0 when all held."""
    parser = argparse.ArgumentParser("python -m tests.e2e.kueue.random_workloads")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ways", default=",".join(WAYS))
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="topo-kueue-"))
    with own_cluster(home, kueue={}) as cluster:
        try:
            asyncio.run(_run(options, cluster, home))
        except BaseException:
            sys.stderr.write(f"logs of all programs are in {home}\n")
            raise
    shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
