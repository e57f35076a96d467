"""The longest time that the master's loop answers nobody, in processor time, where it is largest.

A block is one callback of the loop, or one collection of garbage, in whichever thread: nobody else
has a turn during either. Time in which the machine does something else does not count.
"""

import asyncio
import gc
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import prometheus_client as prom

from bench import cluster
from bench.discovery.core import built_state
from bench.figure import Figure, at_most, worst
from bench.processes import in_child
from bench.scale import CannotRunError, Progress, Scale
from master.composition.service import build_service
from master.composition.tree import build_take_up
from master.kube.client import Call, KubeClient
from master.kube.credentials.config import KubeConfig
from master.kube.dra.claims import (
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    claim_template,
    device_claim,
    device_class,
)
from master.kube.dra.counts import DeviceCounts
from master.kube.dra.slices import RESOURCE_SLICES, device_slice
from master.kube.gang_pod import ClusterPod
from master.kube.metrics import KubeMetrics
from master.kube.objects import NODES, PODS, NodeObject, parsed
from master.kube.reading import PAGE
from master.kube.reflector import Reflector
from master.role import ALONE, FOLLOWER, Role
from master.service import Service
from master.settings import MasterSettings
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.kubernetes.node_source import NodeSource
from master.sources.kubernetes.pods import PodParser
from master.state.document import State
from master.tree.engine import Engine
from topo.discovery.modes import Mode
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.terms import Way
from topo.kit.process import collector
from topo.kit.settings import read
from topo.model.observation import CLUSTER_NODES, ManagerReported, WorkerReported
from topo.sim.fleet.facts import facts_of_host
from topo.sim.worlds.presets import World, managed_topology

PODS_PER_NODE = 8


@dataclass(slots=True)
class Blocks:
    """The longest callback, the longest collection, and all callbacks, in milliseconds."""

    all_ms: float = 0.0
    callback_ms: float = 0.0
    collection_ms: float = 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside the block every callback of the loop of this thread is timed."""
        run, began_s = asyncio.Handle._run, [0.0]  # noqa: SLF001 - the loop offers no such hook

        def timed(handle: asyncio.Handle) -> None:
            at_s = time.thread_time()
            run(handle)
            took_ms = (time.thread_time() - at_s) * 1000
            self.all_ms += took_ms
            self.callback_ms = max(self.callback_ms, took_ms)

        def collected(phase: str, _info: dict[str, int]) -> None:
            if phase == "start":
                began_s[0] = time.thread_time()
                return
            took_ms = (time.thread_time() - began_s[0]) * 1000
            self.collection_ms = max(self.collection_ms, took_ms)

        asyncio.Handle._run = timed  # type: ignore[method-assign,assignment] # noqa: SLF001
        gc.callbacks.append(collected)
        try:
            yield
        finally:
            gc.callbacks.remove(collected)
            asyncio.Handle._run = run  # type: ignore[method-assign] # noqa: SLF001


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Each in a process of its own, as after a start."""
    size, note = f"{scale.nodes:,} nodes", "of processor time"
    for what in _CASES:
        progress(f"{size}: {what}")
        found = [in_child(blocks, what, scale.nodes) for _ in range(scale.builds)]
        callback = worst([each.callback_ms for each in found])
        yield Figure(f"worst block, {what}, {size}", callback, "ms", at_most(50), note)
        collection = worst([each.collection_ms for each in found])
        yield Figure(f"worst collection, {what}, {size}", collection, "ms", at_most(50), note)


def blocks(what: str, nodes: int) -> Blocks:
    """What one case shows; on a loop of Python, whose callbacks can be timed."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        return runner.run(_CASES[what](nodes, Path(folder)))


def _service(home: Path, role: Role = ALONE) -> Service:
    flags = (
        "--mode=switchbox",
        "--cluster-manager-address=https://127.0.0.1",
        "--gpus-per-node=8",
        "--kubernetes=on",
        f"--kubeconfig={home / 'kubeconfig'}",
        f"--state-file={home / 'state' / 'state.json'}",
    )
    settings = read(MasterSettings, flags)
    if not isinstance(settings, MasterSettings):
        raise CannotRunError(f"these are no settings: {settings}")
    return build_service(settings, role)


async def _take_up(nodes: int, home: Path) -> Blocks:
    """A follower hears a leader for the first time; the cluster's nodes are counted."""
    memory = built_state(nodes).persistent_state()
    service = _service(home, FOLLOWER)
    take_up = build_take_up(service.engine, service.placements, service.replica, service.readiness)
    async with _counted(service, _Pages(_names(cluster.cluster(nodes)), 0)):
        collector.freeze_startup()
        with (seen := Blocks()).watched():
            await take_up.state(memory, None)
            await asyncio.sleep(0)
    return seen


async def _restored(nodes: int, home: Path) -> Blocks:
    """The kept state is taken up by who comes to lead, and kept again."""
    memory = built_state(nodes).persistent_state()
    service = _service(home)
    state = State("topo-master-state", 1.0, Mode.SWITCHBOX, memory)
    collector.freeze_startup()
    with (seen := Blocks()).watched():
        await asyncio.sleep(0)
        await service.engine.restore(memory, 1.0)
        if service.saver is not None:
            await service.saver.loaded(state)
        await service.engine.persistent_state()
    return seen


async def _managed(nodes: int, home: Path) -> Blocks:
    """A cluster manager answers for the first time, to a master that all workers reported to."""
    world = cluster.cluster(nodes)
    engine = _service(home).engine
    work = asyncio.create_task(engine.run())
    for node in world.nodes:
        engine.submit(WorkerReported(facts_of_host(node)))
    await _until(lambda: not engine.waiting)
    collector.freeze_startup()
    with (seen := Blocks()).watched():
        before = engine.snapshot.generation
        engine.submit(ManagerReported(managed_topology(world)))
        await _until(lambda: engine.snapshot.generation > before)
    work.cancel()
    await asyncio.wait([work])
    return seen


async def _first_reports(nodes: int, home: Path) -> Blocks:
    """All workers report at once; then the nodes of the cluster are listed."""
    world = cluster.cluster(nodes)
    facts = list(cluster.as_master_holds(world))
    service, pages = _service(home), _Pages(_names(world), 0)
    engine = service.engine
    works = [asyncio.create_task(engine.run())]
    engine.submit(ManagerReported(managed_topology(world)))
    await _until(lambda: engine.snapshot.generation > 0)
    collector.freeze_startup()
    with (seen := Blocks()).watched():
        for each in facts:
            engine.submit(WorkerReported(each))
        await _until(lambda: not engine.waiting)
        async with _counted(service, pages) as (of_nodes, capacity):
            source = NodeSource(of_nodes, engine, capacity)
            works.append(asyncio.create_task(source.run()))
            await _until(lambda: _answered(engine))
        for work in works:
            work.cancel()
        await asyncio.wait(works)
    return seen


async def _pods(nodes: int, home: Path) -> Blocks:
    """The nodes and pods of the cluster are listed and counted."""
    pages = _Pages(_names(cluster.cluster(nodes)), PODS_PER_NODE)
    service = _service(home)
    collector.freeze_startup()
    with (seen := Blocks()).watched():
        async with _counted(service, pages):
            pass
    return seen


_CASES: dict[str, Callable[[int, Path], Coroutine[None, None, Blocks]]] = {
    "a follower's first take-up": _take_up,
    "a restart": _restored,
    "first reports and first list": _first_reports,
    "a manager's first answer": _managed,
    f"{PODS_PER_NODE} pods on each node": _pods,
}


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.05)


def _answered(engine: Engine) -> bool:
    sources = {each.source: each for each in engine.snapshot.sources}
    return sources[CLUSTER_NODES].last_good_at_s is not None and not engine.waiting


@asynccontextmanager
async def _counted(
    service: Service, pages: "_Pages"
) -> AsyncIterator[tuple[Reflector[NodeObject], ClusterCapacity]]:
    """Inside the block the nodes and pods of these pages are counted and followed."""
    metrics = KubeMetrics(prom.CollectorRegistry())
    policy = service.settings.policy
    parser = PodParser(policy, AnnotationKeys(policy.domain), Way.NOMINATION)
    of_nodes: Reflector[NodeObject] = Reflector(pages, NODES, metrics=metrics)
    of_pods = Reflector[ClusterPod](pages, parsed(PODS, parser.parse), metrics=metrics)
    devices = DeviceCounts(
        Reflector(pages, parsed(RESOURCE_SLICES, device_slice), metrics=metrics),
        Reflector(pages, parsed(DEVICE_CLASSES, device_class), metrics=metrics),
        Reflector(pages, parsed(CLAIM_TEMPLATES, claim_template), metrics=metrics),
        Reflector(pages, parsed(RESOURCE_CLAIMS, device_claim), metrics=metrics),
    )
    capacity = ClusterCapacity(service.placements.state, of_nodes, of_pods, devices)
    tasks = [asyncio.create_task(each.run()) for each in (of_nodes, of_pods, capacity)]
    await capacity.settled.wait()
    try:
        yield of_nodes, capacity
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class _Pages(KubeClient):
    """An API server that has its answers ready; nothing of it is measured."""

    def __init__(self, names: Sequence[str], pods: int) -> None:
        super().__init__(KubeConfig())
        running = [_pod(f"{name}-{number}", name) for name in names for number in range(pods)]
        self._pages = {
            "nodes": _paged("NodeList", [_node(name) for name in names]),
            "pods": _paged("PodList", running),
        }

    async def call(self, call: Call) -> bytes:
        """A page of a list."""
        await asyncio.sleep(0)
        return self._pages[call.path.rpartition("/")[2]][int(call.query.get("continue", 0))]

    @asynccontextmanager
    async def lines(self, _call: Call, *, idle_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Nothing ever happens."""
        await asyncio.Event().wait()
        yield self._never(idle_s)

    async def _never(self, idle_s: float) -> AsyncIterator[bytes]:
        await asyncio.sleep(idle_s)
        yield b""


def _paged(kind: str, items: list[Any]) -> list[bytes]:
    starts = range(0, max(1, len(items)), PAGE)
    bodies = []
    for number, start in enumerate(starts, start=1):
        more = str(number) if number < len(starts) else ""
        metadata = {"resourceVersion": "1", "continue": more}
        document = {"kind": kind, "metadata": metadata, "items": items[start : start + PAGE]}
        bodies.append(orjson.dumps(document))
    return bodies


def _names(world: World) -> list[str]:
    return [str(node.identity.name) for node in world.nodes]


def _node(name: str) -> Any:
    resources = {"cpu": "128", "metax-tech.com/gpu": "8"}
    labels = {f"label.example/{number}": f"value-{number}" for number in range(20)}
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels}
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": resources, "capacity": resources, "conditions": [ready]}
    return {"metadata": metadata, "spec": {}, "status": status}


def _pod(name: str, node: str) -> Any:
    metadata = {"name": name, "namespace": "jobs", "uid": f"uid-{name}", "resourceVersion": "1"}
    container = {"name": "main", "resources": {"limits": {"metax-tech.com/gpu": "1"}}}
    spec = {"nodeName": node, "containers": [container]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
