"""Questions of a scheduler about one pod, with the names of 5,000 nodes, over HTTP."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import orjson
import prometheus_client as prom
import uvloop
from aiohttp import ClientSession, TCPConnector
from pydantic import TypeAdapter

from bench.figure import Figure, at_most, p99
from bench.processes import LOOPBACK, in_child
from bench.scale import CannotRunError, Progress, Scale
from master.booking.metrics import PlacementMetrics
from master.booking.state import BookingState
from master.extender.answers import Extender
from master.extender.metrics import ExtenderMetrics
from master.extender.plans import ExtenderPlans
from master.extender.quota import GpuQuota
from master.extender.server import extender_app, extender_connections
from master.kube.gang_pod import ClusterPod
from master.kube.objects import (
    CONFIG_MAPS,
    NODES,
    PODS,
    ConfigMapObject,
    Key,
    KubeObject,
    NodeObject,
    PodObject,
    Resource,
)
from master.kube.reflector import Listener
from master.sources.kubernetes.pods import PodParser
from topo.gangs.annotation_keys import COMPLETION_INDEX, AnnotationKeys
from topo.gangs.terms import Way
from topo.kit.tasks import Site, start
from topo.model.cluster import ClusterNode
from topo.model.ids import NodeName
from topo.placement.booking.holds import Limits
from topo.placement.job.policy import Policy

GPU = "metax-tech.com/gpu"
T = TypeVar("T", bound=KubeObject)
_NODES = 5_000
_WARM_UP = 50
_BUDGET_MS = 5.0
_KEYS = AnnotationKeys("metax-tech.com")


@dataclass
class _Listed(Generic[T]):
    """Objects that do not change, as a reflector shows them."""

    resource: Resource[Any]
    objects: dict[Key, T] = field(default_factory=dict)
    synced: bool = True

    def subscribe(self, listener: Listener[Any]) -> None:
        """Nothing changes; whoever follows pods is told by hand."""


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """What a scheduler waits for at each pod of a group."""
    nodes = min(_NODES, scale.nodes)
    for call in ("filter", "prioritize", "predicates"):
        progress(f"{scale.churn_calls} questions {call}, {nodes:,} nodes")
        samples = uvloop.run(_served(call, nodes, scale.churn_calls))
        note = "names in and out, one kept connection; from the first byte sent to the answer read"
        name = f"POST /scheduler/{call}, {nodes:,} names of nodes: p99 latency"
        yield Figure(name, p99(samples), "ms", at_most(_BUDGET_MS), note)


async def _served(call: str, nodes: int, calls: int) -> Sequence[float]:
    names = [f"node-{number}" for number in range(nodes)]
    pod = _pod()
    extender, plans = _extender(names, pod)
    site = Site(
        app=extender_app(extender),
        port=0,
        connections=extender_connections(),
        host=LOOPBACK,
        drain_s=0.1,
    )
    async with AsyncExitStack() as stack:
        plan = asyncio.ensure_future(plans.run())
        stack.callback(plan.cancel)
        ((_, port),) = await start(site, stack)
        content = orjson.dumps({"Pod": pod, "NodeNames": names})
        return await asyncio.to_thread(in_child, asked, port, call, content, calls)


def _extender(names: Sequence[str], pod: dict[str, Any]) -> tuple[Extender, ExtenderPlans]:
    """An extender over idle nodes and one pod that waits, of a group of eight."""
    registry = prom.CollectorRegistry()
    state = BookingState(Policy(), Limits(), PlacementMetrics(registry), time.monotonic)
    gpus = ((GPU, 8),)
    state.follow_cluster([ClusterNode(name=NodeName(name), allocatable=gpus) for name in names])
    parsed = PodParser(Policy(), _KEYS, Way.NOMINATION).parse(
        TypeAdapter(PodObject).validate_python(pod)
    )
    pods = _Listed[ClusterPod](PODS, {("jobs", "train-0"): parsed})
    node = TypeAdapter(NodeObject).validate_python
    known = {("", name): node({"metadata": {"name": name}}) for name in names}
    nodes = _Listed[NodeObject](NODES, known)
    plans = ExtenderPlans(pods=pods, nodes=nodes, state=state, keys=_KEYS, is_counted=lambda: True)
    plans.note(("jobs", "train-0"), parsed)
    quota = GpuQuota(
        config_map=_Listed[ConfigMapObject](CONFIG_MAPS),
        pods=pods,
        nodes=nodes,
        labels=("a.com/model", "a.com/pool"),
        clock=time.monotonic,
    )
    metrics = ExtenderMetrics(registry)
    extender = Extender(
        pods,
        plans,
        quota,
        policy=Policy(),
        metrics=metrics,
        shared_cards=state.cards.snapshot,
        unavailable=tuple,
    )
    return extender, plans


def asked(port: int, call: str, content: bytes, calls: int) -> Sequence[float]:
    """The time of each call in milliseconds; raises `CannotRunError` for another answer."""
    return uvloop.run(_asked(port, call, content, calls))


async def _asked(port: int, call: str, content: bytes, calls: int) -> Sequence[float]:
    url, samples = f"http://{LOOPBACK}:{port}/scheduler/{call}", []
    async with ClientSession(connector=TCPConnector(limit=1)) as session:
        for _ in range(calls + _WARM_UP):
            began_s = time.perf_counter()
            async with session.post(url, data=content) as answer:
                said = await answer.read()
            samples.append((time.perf_counter() - began_s) * 1e3)
            if answer.status != 200 or b"node-" not in said:
                raise CannotRunError(f"the extender answers {answer.status}: {said[:200]!r}")
    return samples[_WARM_UP:]


def _pod() -> dict[str, Any]:
    """The first pod of an Indexed Job of pairs, as kube-scheduler sends it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1"}
    resources = {"limits": {GPU: "8"}, "requests": {GPU: "8"}}
    return {
        "metadata": {
            "name": "train-0",
            "namespace": "jobs",
            "uid": "pod-1",
            "labels": {COMPLETION_INDEX: "0"},
            "annotations": {_KEYS.size: "8"},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": "Pending"},
    }
