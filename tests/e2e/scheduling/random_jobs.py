"""Jobs at random on a real cluster, arriving and leaving among pods of others, judged from outside.

The judge is a client of its own: it reads pods from the API server, the groups from `/node_group`,
and counts with its own arithmetic. `make e2e-random` runs 200 jobs on 64 nodes.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientSession

from tests.chaos.ports import own_ports
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.core import Ports
from tests.e2e.controlplane.volcano import vendor_configuration
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.admission_master import admission_master
from tests.e2e.scheduling.gang_master import api_url, document
from tests.e2e.scheduling.jobs import BATCH_JOBS, JOBS, PODS, WORDS
from tests.e2e.scheduling.recount import Free, Ground, Recount, Wish, ground, recounted
from tests.e2e.scheduling.replayed import Life, Optima, replayed
from tests.support.waiting import eventually, eventually_nothing
from topo.sim.worlds.presets import World
from topo.sim.worlds.presets import world as made

_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_HIGH = "random-high"
_MOST_WAITING = 6
_LOOK_EACH = 5
"""Jobs after which all stands still until every job that waits has a true reason."""
_PAUSE_S = 0.2
_TOLD = {"no-room", "displaced", "behind"}
"""States of jobs that wait; others pass by themselves. Who is behind others was so when it was
asked about last: what was free then, somebody else may have taken since.
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs of one scheduler: where they are made, what their user writes, how their pods are known.

    `label` is that of the pods, whose value is the name of the job.
    """

    collection: str
    job: Callable[..., Any]
    label: str


KINDS = {
    "volcano": Kind(JOBS, asking.volcano_job, "volcano.sh/job-name"),
    "kube": Kind(BATCH_JOBS, asking.batch_job, "batch.kubernetes.io/job-name"),
}


def wishes(seed: int, count: int, nodes: int) -> Iterator[Wish]:
    """Jobs that each fit on the empty cluster: sizes, tails, modes and priorities at random."""
    rng = random.Random(seed)  # noqa: S311 - the same jobs each time
    most = nodes // 2
    for at in range(count):
        gpus = rng.choice((8, 8, 8, 4))
        size = rng.choice((16, 16, 32, 64))
        pods = min(most, max(1, round(rng.lognormvariate(1.4, 0.8))))
        yield Wish(
            name=f"random-{at}",
            pods=pods,
            gpus=gpus,
            size=size,
            required=rng.random() < 0.8,
            is_high=rng.random() < 0.2,
        )


@dataclass
class Course:
    """What was run, and what came of it."""

    bound: int = 0
    looks: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    waited: int = 0
    slowest: tuple[float, str] = (0.0, "")
    """The longest that a reason took to become true, in seconds, and what it was before."""
    optima: Optima = field(default_factory=Optima)


class Stream:
    """Jobs on one cluster while the webhook and a master are in force."""

    def __init__(self, api: Api, url: str, kind: Kind, rng: random.Random, on: Ground) -> None:
        self._api, self._url, self._kind, self._rng, self._ground = api, url, kind, rng, on
        self._seen: Recount | None = None
        self._live: dict[str, Wish] = {}
        self._others: list[str] = []
        self._done: set[str] = set()
        """Jobs that were bound as a whole once."""
        self.times: dict[str, list[float]] = {}
        """When each job was made, and when it was seen bound."""
        self.course = Course()
        self._last = ""

    async def run(self, jobs: Sequence[Wish], tell: Callable[[str], None]) -> None:
        """All of them arrive, run and leave; what must never be raises `AssertionError`."""
        for number, wish in enumerate(jobs, 1):
            await self._submit(wish)
            await self._others_come_and_go(number)
            await asyncio.sleep(_PAUSE_S)
            await self._look()
            while len(self._waiting()) > _MOST_WAITING:
                await self._end_one()
            if self._rng.random() < 0.3:
                await self._end_one()
            if number % _LOOK_EACH == 0:
                await self._stand_still()
                waiting, slowest = len(self._waiting()), self.course.slowest
                tell(f"{number} jobs: {len(self._done)} were bound, {waiting} wait; {slowest}")
        for name in [*self._others]:
            await self._end_other(name)
        while self._waiting():
            await self._end_one()
        await self._stand_still()

    async def _submit(self, wish: Wish) -> None:
        mode = {} if wish.required else {WORDS.mode: "preferred"}
        job = self._kind.job(wish.name, wish.pods, wish.size, gpus=wish.gpus, **mode)
        if wish.is_high:
            for template in _templates(job):
                template["spec"]["priorityClassName"] = _HIGH
        self.times[wish.name] = [time.monotonic()]
        self._live[wish.name] = wish
        await self._api.create(self._kind.collection, job)

    async def _others_come_and_go(self, number: int) -> None:
        if self._rng.random() < 0.4:
            name = f"other-{number}"
            self._others.append(name)
            await self._api.create(self._kind.collection, self._kind.job(name, 1))
        if len(self._others) > 3:
            await self._end_other(self._rng.choice(self._others))

    async def _end_other(self, name: str) -> None:
        self._others.remove(name)
        await self._end(name)

    async def _end(self, name: str) -> None:
        """A job goes, and its pods with it: the garbage collector would take some twenty a second.

        Meanwhile nothing stands still.
        """
        kind = self._kind
        await self._api.delete(f"{kind.collection}/{name}")
        which = {"labelSelector": f"{kind.label}={name}", "gracePeriodSeconds": "0"}
        await self._api.call("DELETE", PODS, **which)

    def _waiting(self) -> list[str]:
        return [name for name in self._live if name not in self._done]

    async def _end_one(self) -> None:
        """A job that runs leaves; where none does, the next one to run is awaited."""

        async def runs() -> bool:
            await self._look()
            return any(name in self._done for name in self._live)

        await eventually(runs)
        name = self._rng.choice([name for name in self._live if name in self._done])
        del self._live[name]
        await self._end(name)
        await self._stand_still()

    async def _look(self) -> Recount:
        """Counts anew; raises for what must not be at any moment."""
        found = self._seen = await recounted(self._api, self._ground)
        self.course.looks += 1
        assert not found.overbooked(), f"more GPUs are taken than there are: {found.overbooked()}"
        for name, wish in self._live.items():
            nodes = found.bound(name)
            if len(nodes) < wish.pods or name in self._done:
                continue
            self._done.add(name)
            self.times[name].append(time.monotonic())
            self.course.bound += 1
            split = found.split(wish, nodes)
            assert not wish.required or not split, f"{name} {wish}: groups {split} are split"
        return found

    async def _stand_still(self) -> None:
        """Returns when every job that waits says why, and the recount agrees."""
        began_s, self._last = time.monotonic(), ""
        await eventually_nothing(self._untrue)
        self.course.slowest = max(self.course.slowest, (time.monotonic() - began_s, self._last))
        self.course.waited += len(self._waiting())

    async def _untrue(self) -> list[str]:
        before = self._seen or await self._look()
        async with ClientSession() as session, session.get(f"{self._url}/v1/gangs") as answer:
            gangs = {each["name"]: each for each in (await answer.json())["gangs"]}
        after = await self._look()
        if before.places() != after.places():
            self._last = "pods moved meanwhile"
            return [self._last]
        said = [(name, gangs.get(name)) for name in self._waiting()]
        found = [
            text
            for name, gang in said
            if (text := _untruth(self._live[name], gang, after.free(name)))
        ]
        self._last = found[0] if found else self._last
        if not found:
            self.course.reasons.update(gang["state"] for _, gang in said if gang is not None)
        return found


def _untruth(wish: Wish, gang: Mapping[str, Any] | None, free: Free) -> str:
    """What is not true of the reason that a waiting job gives; empty where it is true."""
    if gang is None:
        return f"{wish.name} waits and is not known"
    state, fits = gang["state"], free.fits(wish)
    if state == "half-bound":
        return ""  # where the rest may go is decided by where the first are
    if state in {"no-room", "displaced"} and fits:
        return f"{wish} is said to be {state}, and fits: {gang['text']}"
    if state == "behind" and not gang["ahead"]:
        return f"{wish} is said to be behind others, and is the first"
    return "" if state in _TOLD else f"{wish.name} is {state}: {gang['text']}"


def _templates(job: Any) -> Iterator[Any]:
    spec = job["spec"]
    yield from (task["template"] for task in spec.get("tasks", ()))
    if "template" in spec:
        yield spec["template"]


async def streamed(
    cluster: Cluster,
    api: Api,
    world: World,
    home: Path,
    jobs: Sequence[Wish],
    *,
    scheduler: str = "volcano",
    tell: Callable[[str], None] = lambda _: None,
) -> Course:
    """What came of the jobs on a cluster that runs; raises for what must not be."""
    (home / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    await api.create(_CLASSES, {"metadata": {"name": _HIGH}, "value": 1000})
    log = home / "bookings.log"
    async with admission_master(cluster, api, home, f"--booking-log={log}") as master:
        rng = random.Random(1)  # noqa: S311 - as above
        url = api_url(master.program)
        stream = Stream(api, url, KINDS[scheduler], rng, await ground(api, url))
        await stream.run(jobs, tell)
        events = await api.items("/apis/events.k8s.io/v1/namespaces/default/events")
    assert not [each["note"] for each in events if each["reason"] == "GangSplit"]
    assert stream.course.bound == len(jobs)
    lives = [Life(wish, *stream.times[wish.name]) for wish in jobs]
    stream.course.optima = replayed(log, lives)
    return stream.course


async def _run(options: argparse.Namespace, cluster: Cluster, home: Path) -> Course:
    world = made(max(1, options.nodes // 16), min(8, options.nodes // 2), 2, 8, stem="sample")
    began_s = time.monotonic()

    def tell(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began_s:7.1f} s  {text}\n")
        sys.stdout.flush()

    await cluster.start(world)
    tell(f"{len(world.nodes)} nodes are ready")
    jobs = list(wishes(options.seed, options.jobs, len(world.nodes)))
    async with cluster.api() as api:
        course = await streamed(
            cluster, api, world, home, jobs, scheduler=options.scheduler, tell=tell
        )
    tell(str(course))
    return course


def main() -> int:
    """The exit code: 0 when all held."""
    parser = argparse.ArgumentParser("python -m tests.e2e.scheduling.random_jobs")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scheduler", choices=KINDS, default="volcano")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="topo-random-"))
    try:
        with own_ports() as ports:
            cluster = Cluster(
                home,
                Ports(*ports),
                volcano_configuration=vendor_configuration(),
                lease_s=3600 if options.nodes > 100 else 40,
            )
            try:
                asyncio.run(_run(options, cluster, home))
            finally:
                cluster.stop()
    finally:
        shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
