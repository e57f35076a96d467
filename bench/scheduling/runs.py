"""Jobs run on a control plane of so many nodes, with our placement and without, and their times."""

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from bench.kubernetes.plane import Plane, plane
from bench.machine import usage
from bench.scale import CannotRunError
from bench.scheduling.follower import Follower, PodTimes
from tests.e2e.controlplane.processes import Program
from tests.e2e.controlplane.volcano import TOPOLOGY_AWARE, vendor_configuration
from tests.e2e.scheduling.admission_master import (
    MAKES_POD_GROUPS,
    WITH_POD_GROUPS,
    AdmissionMaster,
    admission_master,
)
from tests.e2e.scheduling.gang_master import api_url
from tests.e2e.scheduling.jobs import NODES, WORDS, homes

LIMIT_S = 120.0
"""A job that is not bound by then counts as long as this."""
_PACE = ("--kube-api-qps=1000", "--kube-api-burst=2000")
"""What the controllers of Kubernetes have here; Volcano's job controller and kube-scheduler would
otherwise make or bind 50 pods a second, whoever places them."""
_SETTLED_S = 1.0
_CONFIGURATION = "--scheduler-conf="
_HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
_PUBLISHED_S = 300.0
_KINDS = ("dragonfly", "switchbox")
_COUNTS = re.compile(r"^topo_master_gang_decision_seconds_(\S+) (\S+)$", re.MULTILINE)
_CPU = re.compile(r"^topo_master_gang_decision_cpu_seconds_total (\S+)$", re.MULTILINE)
_SLIPPED = re.compile(r"^topo_master_gang_pods_slipped_total (\S+)$", re.MULTILINE)
_WAITING = re.compile(r"^topo_master_kube_writes_waiting\{\S+\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one job showed: seconds from before its creation until all pods were at each step.

    `first_s`: until the first pod was there. `split` of the `groups` lie in several domains.
    `slipped`: pods that were made without a gate. `cpu_s`: processor time of the master. `spans`:
    switchboxes that the pods are in.
    """

    first_s: float
    there_s: float
    opened_s: float
    bound_s: float
    groups: int
    split: int
    slipped: int
    cpu_s: float
    spans: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """What many jobs at once showed: seconds until all pods of all were bound."""

    pods: int
    bound_s: float
    split: int
    cpu_s: float
    spans: int


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions of the engine on gangs until now, as the master counts and times them."""

    count: int
    total_s: float
    cpu_s: float
    over_1_ms: int


@dataclass(frozen=True, slots=True)
class Stage:
    """A control plane with stock Volcano and a master that places gangs; who follows its pods."""

    plane: Plane
    master: AdmissionMaster
    follower: Follower

    async def run(self, collection: str, job: Any, count: int, group_pods: int) -> Run:
        """Runs one job of so many pods until all are bound, and takes it away."""
        slipped = await self._slipped()
        used, began_s = self._cpu_s(), time.monotonic()
        uid = (await self.plane.api.create(collection, job))["metadata"]["uid"]
        await self._until_bound({uid: count})
        pods = tuple(self.follower.pods(uid).values())
        await self._settled()
        late_s = began_s + LIMIT_S
        run = Run(
            first_s=min((pod.there_s for pod in pods), default=late_s) - began_s,
            there_s=max((pod.there_s for pod in pods), default=late_s) - began_s,
            opened_s=max((pod.opened_s or late_s for pod in pods), default=late_s) - began_s,
            bound_s=max((pod.bound_s or late_s for pod in pods), default=late_s) - began_s,
            groups=math.ceil(count / group_pods),
            split=self._split(pods, group_pods),
            slipped=await self._slipped() - slipped,
            cpu_s=self._cpu_s() - used,
            spans=self._spans(pods),
        )
        await self._end(collection, [(job["metadata"]["name"], uid)])
        return run

    async def burst(
        self, collection: str, jobs: Sequence[Any], pods: int, group_pods: int
    ) -> Burst:
        """Runs jobs of so many pods each that are created at once, and takes them away."""
        used, began_s = self._cpu_s(), time.monotonic()
        made = await asyncio.gather(*(self.plane.api.create(collection, job) for job in jobs))
        uids = [each["metadata"]["uid"] for each in made]
        await self._until_bound(dict.fromkeys(uids, pods))
        of_jobs = [tuple(self.follower.pods(uid).values()) for uid in uids]
        await self._settled()
        burst = Burst(
            pods=len(jobs) * pods,
            bound_s=max(pod.bound_s or began_s + LIMIT_S for each in of_jobs for pod in each)
            - began_s,
            split=sum(self._split(each, group_pods) for each in of_jobs),
            cpu_s=self._cpu_s() - used,
            spans=self._spans([pod for each in of_jobs for pod in each]),
        )
        names = [job["metadata"]["name"] for job in jobs]
        await self._end(collection, list(zip(names, uids, strict=True)))
        return burst

    def show_hypernodes(self) -> None:
        """From now on Volcano's scheduler goes by the HyperNodes that the master has written."""
        scheduler = self.plane.cluster.volcano[1]
        (flag,) = (each for each in scheduler.argv if each.startswith(_CONFIGURATION))
        scheduler.stop()
        Path(flag.removeprefix(_CONFIGURATION)).write_text(TOPOLOGY_AWARE)
        scheduler.start()

    async def decisions(self) -> Decisions:
        """What the master's metrics say of its decisions."""
        text = await self._metrics()
        found = {name: float(value) for name, value in _COUNTS.findall(text)}
        count = int(found["count"])
        (cpu_s,) = (float(value) for value in _CPU.findall(text))
        return Decisions(count, found["sum"], cpu_s, count - int(found['bucket{le="0.001"}']))

    async def _until_bound(self, wanted: Mapping[str, int]) -> None:
        def is_bound() -> bool:
            return all(self.follower.bound(uid) == pods for uid, pods in wanted.items())

        await self.follower.until(is_bound, LIMIT_S)

    async def _end(self, collection: str, jobs: Sequence[tuple[str, str]]) -> None:
        await asyncio.gather(*(self.plane.api.delete(f"{collection}/{name}") for name, _ in jobs))
        if not await self.follower.until(
            lambda: not any(self.follower.pods(uid) for _, uid in jobs), LIMIT_S
        ):
            raise CannotRunError("pods of jobs that were deleted do not go")
        await self._settled()

    async def _settled(self) -> None:
        """Returns when the master has written what it had to write for that."""
        while True:
            await asyncio.sleep(_SETTLED_S)
            if not sum(float(count) for count in _WAITING.findall(await self._metrics())):
                return

    async def _slipped(self) -> int:
        found = _SLIPPED.search(await self._metrics())
        return int(float(found.group(1))) if found is not None else 0

    async def _metrics(self) -> str:
        url = f"{api_url(self.master.program)}/metrics"
        async with ClientSession() as session, session.get(url) as answer:
            return await answer.text()

    def _cpu_s(self) -> float:
        return usage(self.master.program.pid).cpu_s

    def _spans(self, pods: Iterable[PodTimes]) -> int:
        home = homes(self.plane.world, "switchbox")
        return len({home[pod.node] for pod in pods if pod.node})

    def _split(self, pods: Sequence[PodTimes], group_pods: int) -> int:
        home = homes(self.plane.world, "dragonfly" if group_pods <= 2 else "switchbox")
        return split_groups(pods, group_pods, home)


def split_groups(pods: Iterable[PodTimes], group_pods: int, home: Mapping[str, str]) -> int:
    """How many groups, each of so many ranks, have pods in several domains; one that is not bound
    is in none. `home`: the domain of each node.
    """
    groups: dict[int, set[str]] = {}
    for pod in pods:
        if pod.node:
            groups.setdefault(pod.rank // group_pods, set()).add(home[pod.node])
    return sum(len(domains) > 1 for domains in groups.values())


@asynccontextmanager
async def pod_groups_stage(count: int) -> AsyncIterator[Stage]:
    """So many labelled nodes on a cluster where the gangs of Kubernetes are on, without Volcano."""
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(plane(count, pod_groups=True))
        _hurry(made.cluster.scheduler)
        made.declare()
        master = await stack.enter_async_context(
            admission_master(
                made.cluster, made.api, made.home, MAKES_POD_GROUPS, rendering=WITH_POD_GROUPS
            )
        )
        await _labelled(made)
        follower = await stack.enter_async_context(Follower(made.api))
        yield Stage(made, master, follower)


def _hurry(program: Program) -> None:
    program.stop()
    program.argv += _PACE
    program.start()


@asynccontextmanager
async def stage(count: int) -> AsyncIterator[Stage]:
    """So many nodes whose groups the master knows, and the webhook in force, inside the block."""
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(
            plane(count, volcano_configuration=vendor_configuration())
        )
        cluster = made.cluster
        for program in (cluster.volcano[0], cluster.scheduler):
            _hurry(program)
        made.declare()
        flag = "--controllers=nomination,hypernodes"
        master = await stack.enter_async_context(
            admission_master(cluster, made.api, made.home, flag)
        )
        await _published(made)
        follower = await stack.enter_async_context(Follower(made.api))
        yield Stage(made, master, follower)


async def _published(made: Plane) -> None:
    """Returns when each group has its HyperNode."""
    groups = {(kind, name) for kind in _KINDS for name in homes(made.world, kind).values()}
    end_s = time.monotonic() + _PUBLISHED_S
    while len(await made.api.items(_HYPERNODES)) < len(groups):
        if time.monotonic() > end_s:
            raise CannotRunError(f"not all HyperNodes are there after {_PUBLISHED_S:g} s")
        await asyncio.sleep(_SETTLED_S)


async def _labelled(made: Plane) -> None:
    """Returns when each node has the label of its dragonfly."""
    key = f"{WORDS.domain}/dragonfly"
    end_s = time.monotonic() + _PUBLISHED_S
    while any(key not in node["metadata"]["labels"] for node in await made.api.items(NODES)):
        if time.monotonic() > end_s:
            raise CannotRunError(f"not all nodes are labelled after {_PUBLISHED_S:g} s")
        await asyncio.sleep(_SETTLED_S)
