"""A model cluster with one gang, masters that come and go, and a scheduler that binds."""

import asyncio
import copy
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import prometheus_client as prom

from master.booking.ahead import AheadBudget
from master.booking.metrics import PlacementMetrics
from master.booking.placements import Placements
from master.composition.nomination import NominationConfig, build_nomination
from master.controllers.leaving_gangs import LeavingGangs
from master.controllers.nomination.controller import Nomination
from master.controllers.nomination.sources import Reservations, Sources
from master.controllers.nomination.volumes import Volumes
from master.kube.client import Call, Caller
from master.kube.gang_pod import ended_pod
from master.kube.objects import NODES, PODS, QUOTAS, parsed
from master.kube.schedulers.composite_groups import COMPOSITE_GROUPS
from master.kube.schedulers.gpu_quotas import gpu_quota
from master.kube.schedulers.jobs import SIZED_KINDS, read_resource
from master.kube.schedulers.scheduling_groups import SCHEDULING_GROUPS
from master.kube.schedulers.volcano import POD_GROUPS, QUEUES
from master.kube.volumes import CLAIMS, STORAGE_CLASSES, VOLUMES
from master.kube.writing.writer import Writer, WriterMetrics
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.kubernetes.pods import PodParser
from tests.controllers.nomination.objects import GPU, LABEL, WORDS, gated_pod
from tests.kube.api_model import ApiModel, Stored
from tests.kube.model_store import ModelStore
from tests.publish.forests import VENDOR
from tests.support.devices import counts
from tests.support.kubernetes import node_status
from topo.gangs.machine.settings import GangSettings
from topo.gangs.stamp import Stamp
from topo.gangs.terms import Way as AskedWay
from topo.model.forest import Forest, Snapshot
from topo.model.ids import Generation
from topo.placement.booking.holds import HoldsMemory, Limits
from topo.placement.job.policy import Policy
from topo.publish.event_series import Reporter

NODE_NAMES = [f"node-{index}" for index in range(1, 9)]
FLIES = [set(NODE_NAMES[at : at + 2]) for at in range(0, 8, 2)]
PODS_OF_GANG = 4
GROUP = "train-job-1"
NOMINATED = "nominatedNodeName"
ON_ITS_WAY_S = 0.005
Scheduler = Literal["volcano", "kube-scheduler"]
InFlight = Literal["lost", "landed"]


@dataclass
class Way:
    """A master's way to the API server, which ends with the master, right after one write.

    `in_flight`: what becomes of requests that were sent by then. None of them is answered.
    """

    api: ApiModel
    dies_after: int = 0
    in_flight: InFlight = "lost"
    written: list[str] = field(default_factory=list)
    died: asyncio.Event = field(default_factory=asyncio.Event)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def call(self, call: Call) -> bytes:
        if self.died.is_set():
            await _for_ever()
        await asyncio.sleep(ON_ITS_WAY_S)
        async with self._one:
            if self.died.is_set() and self.in_flight == "lost":
                await _for_ever()
            answer = await self.api.call(call)
            if call.method != "GET" and not self.died.is_set():
                self.written.append(kind_of(call))
                if len(self.written) == self.dies_after:
                    self.died.set()
        if self.died.is_set():
            await _for_ever()
        return answer


def kind_of(call: Call) -> str:
    """Which of the writes of a gang's course this is."""
    if call.path.startswith("/api/v1/nodes"):
        return "label"
    if "/events" in call.path:
        return "event"
    if not call.path.endswith("/status"):
        return "open"
    return "condition" if b'"conditions"' in (call.body or b"") else "nominate"


async def _for_ever() -> None:
    await asyncio.Event().wait()


@dataclass
class GangCluster:
    """Four dragonflies of two nodes, and a job of two pairs; `scheduler` binds while it is on."""

    scheduler: Scheduler
    api: ApiModel = field(default_factory=ApiModel)
    binds: bool = True
    bound: list[tuple[str, str]] = field(default_factory=list)
    """Pods and their nodes in the order in which they were bound."""
    slipped: int | None = None
    """The rank whose pod no webhook gates."""
    _made: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in NODE_NAMES:
            self.api.add(NODES, name, metadata={"labels": {}}, spec={}, status=node_status())
        self.api.watches.append(self._wake)

    def submit(self, **asked: str) -> None:
        """The job and all of its pods, gated; Volcano lets it in at once."""
        in_volcano = self.scheduler == "volcano"
        if in_volcano:
            self.api.add(QUEUES, "default", spec={}, status={"state": "Open"})
            spec = {"minMember": PODS_OF_GANG, "queue": "default"}
            status = {"phase": "Inqueue"}
            self.api.add(
                POD_GROUPS, GROUP, metadata={"namespace": "jobs"}, spec=spec, status=status
            )
        stamp = Stamp(pods=PODS_OF_GANG, rank_offset=0, pods_per_group=2)
        for rank in range(PODS_OF_GANG):
            made = gated_pod(rank, stamp, group=GROUP if in_volcano else "", **asked)
            if rank == self.slipped:
                made["spec"]["schedulingGates"] = []
            status = {"phase": "Pending"}
            self._made[rank] = {**made, "status": status}
            self.create(rank)

    def create(self, rank: int) -> None:
        """The job's controller makes a pod, the webhook gates it."""
        self.api.add(PODS, f"pod-{rank}", **copy.deepcopy(self._made[rank]))

    def take(self, node: str) -> None:
        """Somebody else's pod gets a node."""
        container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
        spec = {"nodeName": node, "containers": [container]}
        metadata, status = {"namespace": "others"}, {"phase": "Running"}
        self.api.add(PODS, f"taker-{node}", metadata=metadata, spec=spec, status=status)

    def end(self) -> None:
        """The job is deleted with its pods."""
        for rank in range(PODS_OF_GANG):
            self.api.remove(PODS, f"pod-{rank}", "jobs")

    @property
    def pods(self) -> list[Stored]:
        """The pods of the job by rank."""
        at = "/api/v1/namespaces/jobs/pods"
        names = (f"pod-{rank}" for rank in range(PODS_OF_GANG))
        return [self.api.objects[at, name] for name in names if (at, name) in self.api.objects]

    @property
    def is_open(self) -> bool:
        """Whether the gates of all pods are off."""
        return not any(_is_gated(pod) for pod in self.pods)

    @property
    def nominated(self) -> list[str]:
        """The node that each pod is nominated to, by rank."""
        return [pod.document["status"].get(NOMINATED, "") for pod in self.pods]

    def labelled(self) -> set[str]:
        """The nodes with the gang's label."""
        return {name for name, labels in self.api.labels().items() if LABEL in labels}

    def _wake(self, _at: str, _name: str, _document: Any) -> None:
        asyncio.get_running_loop().call_soon(self.schedule)

    def schedule(self) -> None:
        """Binds what is open, each where it is nominated if that is free and selected: Volcano all
        that wait or none, kube-scheduler each.
        """
        waiting = [pod for pod in self.pods if "nodeName" not in pod.document["spec"]]
        if not self.binds:
            return
        free = [name for name in NODE_NAMES if name not in self._taken()]
        found: dict[str, str] = {}
        for pod in sorted(
            waiting, key=lambda pod: pod.document["status"].get(NOMINATED) not in free
        ):
            if not _is_gated(pod) and (node := self._node_for(pod, free)) is not None:
                free.remove(node)
                found[pod.document["metadata"]["name"]] = node
        if self.scheduler == "volcano" and len(found) < len(waiting):
            return
        for name, node in found.items():
            self.bind(name, node)

    def bind(self, name: str, node: str) -> None:
        """A pod of the job is bound to a node, and runs."""
        pod = self.api.objects["/api/v1/namespaces/jobs/pods", name]
        pod.document["spec"]["nodeName"] = node
        pod.document["status"]["phase"] = "Running"
        self.bound.append((name, node))
        self.api.touch("/api/v1/namespaces/jobs/pods", name)

    def _taken(self) -> set[str]:
        pods = (stored for (at, _), stored in self.api.objects.items() if at.endswith("/pods"))
        return {pod.document["spec"].get("nodeName", "") for pod in pods}

    def _node_for(self, pod: Stored, free: Sequence[str]) -> str | None:
        selector = pod.document["spec"].get("nodeSelector", {}).items()
        labels = self.api.labels()
        fit = [name for name in free if selector <= labels[name].items()]
        nominated = pod.document["status"].get(NOMINATED)
        return nominated if nominated in fit else next(iter(fit), None)


def _is_gated(pod: Stored) -> bool:
    return bool(pod.document["spec"]["schedulingGates"])


@dataclass(frozen=True, slots=True)
class Leader:
    """What tests ask of a master that leads."""

    placements: Placements
    nomination: Nomination
    writer: Writer
    registry: prom.CollectorRegistry
    pods: Any
    """The store of pods."""
    ahead: AheadBudget
    works: Sequence["asyncio.Future[None]"] = ()
    """The loops of the master, none of which ends by itself."""

    @property
    def holds(self) -> int:
        """How many holds there are."""
        return len(self.placements.state.bookings)


@dataclass(frozen=True, slots=True)
class Following:
    """What a master follows, for parts beside its gangs."""

    placements: Placements
    nodes: Any
    pods: Any
    writer: Writer
    registry: prom.CollectorRegistry
    capacity: ClusterCapacity
    ahead: AheadBudget


@asynccontextmanager
async def leading(
    api: ApiModel,
    way: Caller,
    tree: Forest = VENDOR,
    kept: HoldsMemory | None = None,
    *,
    is_counted: Callable[[], bool] | None = None,
    is_answered: Callable[[], bool] = lambda: True,
    uncounted: Callable[[], Sequence[str]] = tuple,
    in_volcano: bool = True,
    leads: bool = True,
    settings: GangSettings = GangSettings(),  # noqa: B008 - frozen
    reservations: Callable[[Following], Reservations] | None = None,
    ahead_share: float = 1.0,
    server_now: Callable[[], float] = time.time,
) -> AsyncIterator[Leader]:
    """A master that leads until the block ends, or follows, with the holds that one before kept.

    `reservations` builds what was booked for pods before they were there. `server_now` is the time
    of this master and of the API servers.
    """
    loop, registry = asyncio.get_running_loop(), prom.CollectorRegistry()
    placements = Placements(Policy(), Limits(), PlacementMetrics(registry), loop.time)
    placements.state.follow(Snapshot(Generation(1), tree))
    if kept is not None:
        placements.state.restore(kept)
    nodes: Any = ModelStore(api, NODES, delay_s=0.02)
    parser = PodParser(Policy(), WORDS, AskedWay.NOMINATION)
    pods: Any = ModelStore(
        api, parsed(PODS, parser.parse), delay_s=0.02, chosen=lambda pod: not _has_ended(pod)
    )
    ended: Any = ModelStore(
        api,
        parsed(PODS, lambda found: ended_pod(parser.parse(found))),
        delay_s=0.02,
        chosen=_has_ended_in_gang,
    )
    devices = counts(api, delay_s=0.02)
    capacity = ClusterCapacity(placements.state, nodes, pods, devices)
    writer = Writer(
        way,
        WriterMetrics(registry),
        clock=loop.time,
        rng=random.Random(1),  # noqa: S311
    )
    writer.follow(nodes)
    writer.follow(pods)
    leaving = LeavingGangs(loop.time)
    pods.subscribe(leaving.follow)
    quotas: Any = ModelStore(api, QUOTAS, delay_s=0.02)
    ahead = AheadBudget(
        placements.state,
        ahead_share,
        lambda namespace, of: gpu_quota(quotas.objects.values(), namespace, of),
    )
    following = Following(placements, nodes, pods, writer, registry, capacity, ahead)
    config = NominationConfig(
        sources=Sources(
            nodes=nodes,
            pods=pods,
            pod_groups=ModelStore(api, POD_GROUPS, delay_s=0.02, synced=in_volcano),
            queues=ModelStore(api, QUEUES, delay_s=0.02, synced=in_volcano),
            quotas=quotas,
            ended_pods=ended,
            jobs=tuple(
                ModelStore(api, read_resource(kind, WORDS), delay_s=0.02, chosen=_is_stamped)
                for kind in SIZED_KINDS
            ),
            scheduling_groups=ModelStore(api, SCHEDULING_GROUPS, delay_s=0.02, synced=False),
            composite_groups=ModelStore(api, COMPOSITE_GROUPS, delay_s=0.02, synced=False),
            volumes=Volumes(
                claims=ModelStore(api, CLAIMS, delay_s=0.02),
                volumes=ModelStore(api, VOLUMES, delay_s=0.02),
                classes=ModelStore(api, STORAGE_CLASSES, delay_s=0.02),
            ),
            devices=devices,
            is_answered=is_answered,
            reservations=None if reservations is None else reservations(following),
        ),
        writer=writer,
        placements=placements,
        ahead=ahead,
        leaving=leaving,
        is_counted=is_counted or capacity.settled.is_set,
        domain="metax-tech.com",
        settings=settings,
        max_hold_s=3600.0,
        label_keys={},
        reporter=Reporter("topo-master", "topo-master-0"),
        registry=registry,
        clock=loop.time,
        now=server_now,
        server_now=server_now,
        uncounted=uncounted,
    )
    nomination = build_nomination(config)
    works = (capacity.run, writer.run, *([nomination.run] if leads else []))
    tasks = [asyncio.ensure_future(work()) for work in works]
    try:
        yield Leader(placements, nomination, writer, registry, pods, ahead, tasks)
        assert not [task for task in tasks if task.done()], "a work ended"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def leader(
    cluster: GangCluster,
    way: Way,
    kept: HoldsMemory | None = None,
    is_counted: Callable[[], bool] | None = None,
    *,
    leads: bool = True,
) -> AbstractAsyncContextManager[Leader]:
    """The same in this cluster, with PodGroups and queues where Volcano binds."""
    in_volcano = cluster.scheduler == "volcano"
    return leading(
        cluster.api, way, kept=kept, is_counted=is_counted, in_volcano=in_volcano, leads=leads
    )


async def until(is_so: Callable[[], bool], limit_s: float = 120.0) -> None:
    """Returns when it is so, in virtual time."""
    async with asyncio.timeout(limit_s):
        while not is_so():
            await asyncio.sleep(0.05)


def _has_ended(pod: Any) -> bool:
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}


def _is_stamped(job: Any) -> bool:
    return WORDS.pods in str(job.get("spec"))


def _has_ended_in_gang(pod: Any) -> bool:
    return WORDS.group in pod["metadata"].get("labels", {}) and _has_ended(pod)
