"""Questions of a scheduler about one pod, with the names of 5,000 nodes, over HTTP."""

import asyncio
import gc
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any, Generic, TypeVar

import orjson
import prometheus_client as prom
import uvloop
from aiohttp import ClientSession, TCPConnector
from pydantic import TypeAdapter

from bench.figure import Figure, at_most, p99
from bench.processes import LOOPBACK, in_child
from bench.scale import CannotRunError, Progress, Scale
from master.booking.ahead import AheadBudget
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
from master.kube.reflector import Listed, Listener
from master.settings.extender import QUOTA_KEY
from master.sources.kubernetes.pods import PodParser
from topo.gangs.annotation_keys import COMPLETION_INDEX, AnnotationKeys
from topo.gangs.terms import Way
from topo.kit.process.collector import collect_often, freeze_startup
from topo.kit.tasks import Site, start
from topo.model.cluster import ClusterNode
from topo.model.ids import NodeName
from topo.placement.booking.holds import Limits
from topo.placement.job.policy import Policy
from topo.shared_cards.cards import Amount, Card, CardBook, CardShare
from topo.shared_cards.families import VOLCANO
from topo.shared_cards.scores import KEPT_REQUESTS

GPU, MEMORY = "metax-tech.com/gpu", "volcano.sh/vgpu-memory"
T = TypeVar("T", bound=KubeObject)
Limited = Mapping[str, str]
_WHOLE: Limited = {GPU: "8"}
_SHARED: Limited = {
    "volcano.sh/vgpu-number": "1",
    "volcano.sh/vgpu-cores": "30",
    MEMORY: "4096",
}
_CARDS, _CHANGE_S, _SEED = 8, 0.01, 1
_SIZES = range(4096, 4096 + 4 * KEPT_REQUESTS)
"""MiB that pods ask for one after the other: so many that no question is like one that is kept."""
_NODES = 5_000
_WARM_UP = 50
_BUDGET_MS = 5.0
_KEYS = AnnotationKeys("metax-tech.com")


@dataclass
class _Listed(Generic[T]):
    """Objects that do not change, as a reflector lists them."""

    resource: Resource[Any]
    objects: dict[Key, T] = field(default_factory=dict)
    synced: bool = True

    def subscribe(self, listener: Listener[Any]) -> None:
        """Tell a listener once."""
        listener(Listed(self.objects))


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """What a scheduler waits for at each pod of a group."""
    nodes = min(_NODES, scale.nodes)
    changing = f"; nodes of {_CARDS} cards, of which one in {_CHANGE_S * 1000:.0f} ms changes"
    for call, pods, said, more in (
        ("filter", [_WHOLE], "", ""),
        ("prioritize", [_WHOLE], "", ""),
        ("prioritize", [_SHARED], ", a pod of a part of a card", changing),
        (
            "prioritize",
            [{**_SHARED, MEMORY: str(size)} for size in _SIZES],
            ", a pod of a part of a card as no pod before",
            changing,
        ),
        ("predicates", [_WHOLE], "", ""),
    ):
        what = f"{call}, {nodes:,} names of nodes{said}"
        progress(f"{scale.churn_calls} questions {what}")
        samples = uvloop.run(_served(call, pods, nodes, scale.churn_calls))
        note = "names in and out, one kept connection; from the first byte sent to the answer read"
        name = f"POST /scheduler/{what}: p99 latency"
        yield Figure(name, p99(samples), "ms", at_most(_BUDGET_MS), note + more)


async def _served(call: str, pods: Sequence[Limited], nodes: int, calls: int) -> Sequence[float]:
    names = [f"node-{number}" for number in range(nodes)]
    extender, plans, cards = _extender(names, _pod(pods[0]))
    site = Site(
        app=extender_app(extender),
        port=0,
        connections=extender_connections(),
        host=LOOPBACK,
        drain_s=0.1,
    )
    async with AsyncExitStack() as stack:
        stack.callback(gc.set_threshold, *gc.get_threshold())
        stack.callback(gc.unfreeze)
        freeze_startup()  # as a master does, which collects by the clock from then on
        plan = asyncio.ensure_future(plans.run())
        stack.callback(plan.cancel)
        change = asyncio.ensure_future(_change(cards, names))
        stack.callback(change.cancel)
        collection = asyncio.ensure_future(collect_often())
        stack.callback(collection.cancel)
        ((_, port),) = await start(site, stack)
        # kube-scheduler looks at nodes in parallel, so their names come in no order.
        shuffled = random.Random(_SEED).sample(names, len(names))
        contents = [orjson.dumps({"Pod": _pod(each), "NodeNames": shuffled}) for each in pods]
        return await asyncio.to_thread(in_child, asked, port, call, contents, calls)


async def _change(cards: CardBook, names: Sequence[str]) -> None:
    """Pods take parts of cards, one after the other."""
    rng = random.Random(_SEED)
    while True:
        _take(cards, rng.choice(names), rng)
        await asyncio.sleep(_CHANGE_S)


def _take(cards: CardBook, name: str, rng: random.Random) -> None:
    card = f"{name}-{rng.randrange(_CARDS)}"
    share = CardShare(card, Amount(1, rng.randrange(10, 100, 10), rng.randrange(1 << 14)))
    cards.set_pod(card, NodeName(name), VOLCANO, (share,))


def ask_of(names: Sequence[str]) -> Extender:
    """An extender over these nodes, idle, that knows a pod which waits."""
    return _extender(names, _pod(_WHOLE))[0]


def _extender(
    names: Sequence[str], pod: dict[str, Any]
) -> tuple[Extender, ExtenderPlans, CardBook]:
    """An extender over idle nodes with half of their shared cards taken, and one pod that waits."""
    registry = prom.CollectorRegistry()
    state = BookingState(Policy(), Limits(), PlacementMetrics(registry), time.monotonic)
    gpus = ((GPU, 8),)
    state.follow_cluster([ClusterNode(name=NodeName(name), allocatable=gpus) for name in names])
    rng = random.Random(_SEED)
    for name in names:
        cards = (Card(f"{name}-{at}", Amount(10, 100, 1 << 15)) for at in range(_CARDS))
        state.cards.set_node(NodeName(name), VOLCANO, tuple(cards))
        for _ in range(_CARDS // 2):
            _take(state.cards, name, rng)
    parsed = PodParser(Policy(), _KEYS, Way.NOMINATION).parse(
        TypeAdapter(PodObject).validate_python(pod)
    )
    pods = _Listed[ClusterPod](PODS, {("jobs", "train-0"): parsed})
    node = TypeAdapter(NodeObject).validate_python
    labels = {"a.com/model": "C550", "a.com/pool": "public"}
    known = {("", name): node({"metadata": {"name": name, "labels": labels}}) for name in names}
    nodes = _Listed[NodeObject](NODES, known)
    plans = ExtenderPlans(
        pods=pods,
        nodes=nodes,
        state=state,
        is_counted=lambda: True,
        ahead=AheadBudget(state),
    )
    stated = {"jobs": {"quota": {"C550": 8 * _NODES}, "pool": ["public"]}}
    data = {"metadata": {"name": "quota"}, "data": {QUOTA_KEY: orjson.dumps(stated).decode()}}
    quotas = TypeAdapter(ConfigMapObject).validate_python(data)
    quota = GpuQuota(
        config_map=_Listed[ConfigMapObject](CONFIG_MAPS, {("kube-system", "quota"): quotas}),
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
    return extender, plans, state.cards


def asked(port: int, call: str, contents: Sequence[bytes], calls: int) -> Sequence[float]:
    """The time of each call in milliseconds; raises `CannotRunError` for another answer."""
    return uvloop.run(_asked(port, call, contents, calls))


async def _asked(port: int, call: str, contents: Sequence[bytes], calls: int) -> Sequence[float]:
    url, samples = f"http://{LOOPBACK}:{port}/scheduler/{call}", []
    async with ClientSession(connector=TCPConnector(limit=1)) as session:
        for content in islice(cycle(contents), calls + _WARM_UP):
            began_s = time.perf_counter()
            async with session.post(url, data=content) as answer:
                said = await answer.read()
            samples.append((time.perf_counter() - began_s) * 1e3)
            if answer.status != 200 or b"node-" not in said:
                raise CannotRunError(f"the extender answers {answer.status}: {said[:200]!r}")
    return samples[_WARM_UP:]


def _pod(limits: Limited) -> dict[str, Any]:
    """The first pod of an Indexed Job of pairs, as kube-scheduler sends it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1"}
    resources = {"limits": limits, "requests": limits}
    annotations = {_KEYS.size: "8"} if GPU in limits else {}
    return {
        "metadata": {
            "name": "train-0",
            "namespace": "jobs",
            "uid": "pod-1",
            "labels": {COMPLETION_INDEX: "0"},
            "annotations": annotations,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": "Pending"},
    }
