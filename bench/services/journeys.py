"""How much code four journeys run: functions, files and calls of the product, counted exactly.

A journey is what happens between an event and its last effect in a master: a worker's report, a
placement, a refusal, and a job of four pods from its admission until its gates are open. Time says
nothing about how much a reader must follow to understand it; these numbers do. Code of libraries,
of Python and of the benchmark is not counted. Cluster: 16 nodes in dragonflies of two; of the four
pods: 8 nodes. All run in virtual time in a process of their own, so that the counts repeat.
"""

import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import orjson

from bench.figure import Figure, at_most, exact
from bench.processes import in_child
from bench.scale import CannotRunError, Progress, Scale
from master.admission.reviews import review
from tests.controllers.nomination.masters import PODS_OF_GANG, GangCluster, Way, leader, until
from tests.controllers.nomination.objects import GPU, JOB, WORDS
from tests.master.placing import config, placing
from tests.master.world import Worker, facts, running
from tests.support.virtual_time import VirtualTimeLoop
from topo.gangs.admission.outcome import Rules
from topo.gangs.annotation_keys import TASK_INDEX
from topo.gangs.stamp import Stamp

_ROOT = Path(__file__).resolve().parents[2]
_PRODUCT = tuple(f"{_ROOT / name}/" for name in ("topo", "master", "worker"))
_INLINE = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>", "<lambda>")
"""Frames of Python 3.11 that a reader sees as a line of the function around them."""
_PAIRS = config(boxes=2, flies=4, nodes=2)
_GROUP_GPUS = 16
_BAD_READINGS = 2
"""The fewest that make a GPU unhealthy."""
_LIMITS: Mapping[str, Mapping[str, int]] = {
    "placement": {"files": 30},
    "four pods": {"functions": 200, "calls": 1_200},
}
_REFUSED_TO_PLACED = 2.0


@dataclass(slots=True)
class Trace:
    """Calls of the product's functions, by their code."""

    calls: Counter[CodeType] = field(default_factory=Counter)
    is_counting: bool = False

    def __post_init__(self) -> None:
        threading.setprofile(self)  # of threads that begin from now on
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Count a call; the signature is that of `sys.setprofile`."""
        code = frame.f_code
        if not self.is_counting or event != "call":
            return
        if code.co_name not in _INLINE and code.co_filename.startswith(_PRODUCT):
            self.calls[code] += 1

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count inside the block."""
        self.is_counting = True
        yield
        self.is_counting = False

    def counts(self) -> Mapping[str, int]:
        """Return the numbers of functions, files and calls."""
        files = {code.co_filename for code in self.calls}
        return {
            "functions": len(self.calls),
            "files": len(files),
            "calls": self.calls.total(),
        }


def measure(_scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Yield the counts of each journey, and the ratio of a refusal to a placement."""
    found: dict[str, Mapping[str, int]] = {}
    for name in JOURNEYS:
        progress(name)
        found[name] = in_child(counted, name)
        for unit, value in found[name].items():
            limit = _LIMITS.get(name, {}).get(unit)
            budget = None if limit is None else at_most(limit)
            yield Figure(f"journey {name!r}: {unit}", exact(value), unit, budget)
    ratio = found["refusal"]["calls"] / found["placement"]["calls"]
    budget = at_most(_REFUSED_TO_PLACED)
    yield Figure("calls of a refusal per call of a placement", exact(ratio), "x", budget)


def counted(name: str) -> Mapping[str, int]:
    """Return the counts of one journey. It runs in a process of its own."""
    return traced(name).counts()


def traced(name: str) -> Trace:
    """Return the calls of one journey, in virtual time."""

    async def journey() -> Trace:
        return await JOURNEYS[name]()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(journey())


async def _report() -> Trace:
    """From the reports of a failed GPU until `/v1/topology` shows the next generation."""
    trace = Trace()
    async with running(
        "--mode=dragonfly", "--allow-anonymous-workers", "--node-number=2"
    ) as master:
        names = [f"node-{index}" for index in range(16)]
        workers: list[Worker] = []
        for one, two in zip(names[::2], names[1::2], strict=True):
            workers += await master.pair(one, two)
        await master.ready()
        await workers[3].change(gpus=[{"index": 0, "healthy": True}])
        generation = await master.generation()
        with trace.counting():
            for _ in range(_BAD_READINGS):
                await workers[3].full(facts(names[3], names[2], healthy=False))
            changed = await master.generation()
        if changed == generation:
            raise CannotRunError("a report of a failed GPU changed nothing")
    return trace


async def _placement() -> Trace:
    return await _placed(pods=4)


async def _refusal() -> Trace:
    return await _placed(pods=16)


async def _placed(pods: int) -> Trace:
    """The second answer to a question, after the free capacity changed."""
    trace, asked = Trace(), {"pods": pods, "gpus_per_pod": 8, "group_size": _GROUP_GPUS}
    with tempfile.TemporaryDirectory() as home:
        async with placing(Path(home), text=_PAIRS) as caller:
            await caller.post("/v1/placements", asked)
            await caller.held(pods=1)
            with trace.counting():
                await caller.post("/v1/placements", asked)
    return trace


async def _four_pods() -> Trace:
    """From the review of the job until no pod is gated: webhook, decision and writes."""
    trace, cluster = Trace(), GangCluster("kube-scheduler", binds=False)
    async with leader(cluster, Way(cluster.api)) as master:
        await until(lambda: master.nomination.is_placing)
        with trace.counting():
            for content in _reviews():
                review(content, Rules(keys=WORDS), "warn")
            cluster.submit()
            await until(lambda: cluster.is_open)
    return trace


def _reviews() -> Iterator[bytes]:
    template = _template({WORDS.size: str(_GROUP_GPUS)})
    job = {"metadata": {"name": "j"}, "spec": {"tasks": [{"replicas": 4, "template": template}]}}
    yield _review({"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"}, job)
    stamped = Stamp(PODS_OF_GANG, 0, 2).annotations(WORDS)
    for rank in range(PODS_OF_GANG):
        pod = _template({WORDS.size: str(_GROUP_GPUS), TASK_INDEX: str(rank), **stamped})
        pod["metadata"]["ownerReferences"] = [JOB]
        yield _review({"group": "", "version": "v1", "kind": "Pod"}, pod)


def _template(annotations: Mapping[str, str]) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: 8}}}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}


def _review(kind: Mapping[str, str], created: Mapping[str, Any]) -> bytes:
    request = {"uid": "u", "kind": kind, "operation": "CREATE", "object": created}
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return orjson.dumps({**head, "request": request})


JOURNEYS: Mapping[str, Callable[[], Awaitable[Trace]]] = {
    "report": _report,
    "placement": _placement,
    "refusal": _refusal,
    "four pods": _four_pods,
}
