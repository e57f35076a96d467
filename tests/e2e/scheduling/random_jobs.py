"""Jobs at random on a real cluster, whose stream a second client judges: `make e2e-random`.

200 jobs on 64 nodes if not told otherwise, on stock Volcano or on kube-scheduler, beside a hostile
tenant of another namespace; it ends with 0 and what was seen, or at once with what must not be.
"""

import argparse
import asyncio
import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.controlplane.kwok import LEASE_S
from tests.e2e.controlplane.volcano import vendor_configuration
from tests.e2e.scheduling.admission_master import (
    MAKES_POD_GROUPS,
    OWN,
    WITH_POD_GROUPS,
    admission_master,
)
from tests.e2e.scheduling.elected_masters import ElectedMasters, elected_admission
from tests.e2e.scheduling.gang_master import api_url, document
from tests.e2e.scheduling.hostile import Hostile
from tests.e2e.scheduling.recount import Wish, ground
from tests.e2e.scheduling.replayed import Optima, replayed
from tests.e2e.scheduling.stream import HIGH, KINDS, KUBE_PODGROUP, VOLCANO, Course, Stream
from tests.e2e.scheduling.tenant import a_tenant
from topo.sim.worlds.presets import World
from topo.sim.worlds.presets import world as made

_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
_BOX_NODES = 16
_USUAL_PODS, _NODES_PER_POD = 4, 32
"""Pods of a job that half of the others exceed: these, in a large cluster one for so many nodes."""
_BURST_UNDER_KILLS = 3
"""Few jobs at once, as there is one kill for each burst."""
_NODES_PER_TENANT = 16
"""A hostile tenant takes at most one node of so many."""
_MANY_NODES, _LONG_LEASE_S = 100, 3600


def wishes(seed: int, count: int, nodes: int) -> Iterator[Wish]:
    """Jobs that each fit on the empty cluster: sizes, tails, modes and priorities at random."""
    rng = random.Random(seed)  # noqa: S311 - the same jobs each time
    usual = math.log(max(_USUAL_PODS, nodes // _NODES_PER_POD))
    for at in range(count):
        gpus = rng.choice((8, 8, 8, 4))
        size = rng.choice((16, 16, 32, 64))
        pods = min(nodes // 2, max(1, round(rng.lognormvariate(usual, 0.8))))
        yield Wish(
            name=f"random-{at}",
            pods=pods,
            gpus=gpus,
            size=size,
            required=rng.random() < 0.8,
            is_high=rng.random() < 0.2,
        )


@dataclass(frozen=True, kw_only=True)
class RandomRun:
    """A stream of jobs on a cluster that runs; it raises for what must not be.

    `tell` is called with what came of the jobs until then.
    """

    cluster: Cluster
    api: Api
    world: World
    home: Path
    jobs: Sequence[Wish]
    scheduler: str = VOLCANO
    has_tenant: bool = True
    """A hostile tenant of another namespace is there, too."""
    tell: Callable[[object], None] = lambda _: None

    async def with_one_master(
        self, away_s: float, *, api_away_s: float = 0.0
    ) -> tuple[Course, Optima]:
        """Return what came of the jobs, and how good each plan was.

        Once, when a job waits in the second half, the master is killed, and gone for `away_s`;
        before that the API server is gone for `api_away_s`, once, while jobs are being placed.
        """
        outage = partial(self._outage, api_away_s) if api_away_s else None
        log = self.home / "bookings.log"
        await self._prepare()
        flags = (f"--booking-log={log}", *self._flags)
        async with admission_master(
            self.cluster, self.api, self.home, *flags, rendering=self._rendering
        ) as master:
            on = await ground(self.api, api_url(master.program))
            async with self._hostile() as hostile:
                stream = Stream(
                    self.api,
                    master,
                    KINDS[self.scheduler],
                    on,
                    away_s=away_s,
                    outage=outage,
                    hostile=hostile,
                )
                await self._go(stream, lambda text: self.tell(f"{hostile}; {text}"))
        self.tell("all jobs were bound; each plan is judged by the log of bookings")
        return stream.course, await asyncio.to_thread(replayed, log)

    async def under_kills(self) -> tuple[Course, ElectedMasters]:
        """Return what came of the jobs under two elected masters, and what was done to these.

        One of them is killed while each burst of jobs arrives.
        """
        await self._prepare()
        async with elected_admission(
            self.cluster, self.api, self.home, *self._flags, rendering=self._rendering
        ) as masters:
            on = await ground(self.api, await masters.url())
            async with self._hostile() as hostile:
                stream = Stream(
                    self.api,
                    masters,
                    KINDS[self.scheduler],
                    on,
                    burst=_BURST_UNDER_KILLS,
                    hostile=hostile,
                )
                await self._go(stream, lambda text: self.tell(f"{masters}; {hostile}; {text}"))
        return stream.course, masters

    @asynccontextmanager
    async def _hostile(self) -> AsyncIterator[Hostile | None]:
        """The hostile tenant, until the block ends; none where there shall be none."""
        if not self.has_tenant:
            yield None
            return
        nodes = [str(node.name) for node in self.world.nodes]
        async with a_tenant(self.cluster, self.api) as tenant:
            yield Hostile(tenant, nodes, most=max(1, len(nodes) // _NODES_PER_TENANT))

    async def _outage(self, away_s: float) -> None:
        await self.cluster.stop_api_server()
        try:
            await asyncio.sleep(away_s)
        finally:
            await self.cluster.start_api_server()

    @property
    def _flags(self) -> tuple[str, ...]:
        return (MAKES_POD_GROUPS,) if self.scheduler == KUBE_PODGROUP else ()

    @property
    def _rendering(self) -> str:
        return WITH_POD_GROUPS if self.scheduler == KUBE_PODGROUP else OWN

    async def _prepare(self) -> None:
        (self.home / "nodegroup.yaml").write_text(yaml.safe_dump(document(self.world)))
        await self.api.create(_CLASSES, {"metadata": {"name": HIGH}, "value": 1000})

    async def _go(self, stream: Stream, tell: Callable[[str], None]) -> None:
        await stream.run(self.jobs, tell)
        events = await self.api.items(_EVENTS)
        assert not [each["note"] for each in events if each["reason"] == "GangSplit"]
        assert stream.course.bound == len(self.jobs) + stream.course.restarted


async def _run(options: argparse.Namespace, cluster: Cluster, home: Path) -> None:
    dragonflies = min(_BOX_NODES, options.nodes) // 2
    world = made(math.ceil(options.nodes / _BOX_NODES), dragonflies, 2, 8, stem="sample")
    began_s = time.monotonic()

    def tell(text: object) -> None:
        sys.stdout.write(f"{time.monotonic() - began_s:7.1f} s  {text}\n")
        sys.stdout.flush()

    await cluster.start(world)
    tell(f"{len(world.nodes)} nodes are ready")
    jobs = list(wishes(options.seed, options.jobs, len(world.nodes)))
    async with cluster.api() as api:
        run = RandomRun(
            cluster=cluster,
            api=api,
            world=world,
            home=home,
            jobs=jobs,
            scheduler=options.scheduler,
            has_tenant=options.tenant,
            tell=tell,
        )
        if options.kills:
            course, masters = await run.under_kills()
            tell(f"all held: {masters}; {course}")
        else:
            # Volcano's controller may make no pods of a job for minutes after such an outage.
            api_away_s = 0.0 if options.scheduler == VOLCANO else options.away_s
            course, optima = await run.with_one_master(options.away_s, api_away_s=api_away_s)
            tell(f"all held: {course}")
            tell(f"the plans: {optima}")


def main() -> int:
    """The exit code: 0 when all held."""
    parser = argparse.ArgumentParser("python -m tests.e2e.scheduling.random_jobs")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--away-s", type=float, default=60.0)
    parser.add_argument("--kills", action="store_true", help="two masters, killed by turns")
    parser.add_argument(
        "--tenant",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="a hostile tenant of another namespace beside the jobs (default: on)",
    )
    parser.add_argument("--scheduler", choices=KINDS, default=VOLCANO)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="topo-random-"))
    has_pod_groups = options.scheduler == KUBE_PODGROUP
    with own_cluster(
        home,
        volcano_configuration=None if has_pod_groups else vendor_configuration(),
        pod_groups=has_pod_groups,
        lease_s=_LONG_LEASE_S if options.nodes > _MANY_NODES else LEASE_S,
    ) as cluster:
        try:
            asyncio.run(_run(options, cluster, home))
        except BaseException:
            sys.stderr.write(f"logs of all programs and the log of bookings are in {home}\n")
            raise
    shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
