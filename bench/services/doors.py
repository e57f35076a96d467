"""The longest time that the loop of a port answers nobody under the most expensive bodies.

In processor time of the whole process between two turns of the loop: a thread that holds the
interpreter counts, and time in which the machine does something else does not.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import prometheus_client as prom
import uvloop
from aiohttp import ClientSession, web

from bench.figure import Figure, at_most, exact
from bench.processes import LOOPBACK, in_child
from bench.scale import Progress, Scale
from bench.services.extender import ask_of
from master.admission.metrics import AdmissionMetrics
from master.admission.server import LIMITS as REVIEW
from master.admission.server import PATH, admission_app
from master.extender.server import LIMITS as QUESTION
from master.extender.server import MAX_VALUES, PREFIX, extender_app
from topo.gangs.admission.outcome import Rules
from topo.gangs.annotation_keys import AnnotationKeys
from topo.kit.process.collector import collect_often, freeze_startup
from topo.kit.serving.connections import Connections
from topo.kit.tasks import Site, start
from topo.kit.threads import shorten_switch_interval

_LOOK_S = 0.001
_BUDGET_MS = 50.0
_HOLE = "…"


@dataclass(slots=True)
class Pauses:
    """The longest processor time between two turns of the loop, in milliseconds."""

    longest_ms: float = 0.0

    async def watch(self) -> None:
        """Look until cancelled."""
        before_s = time.process_time()
        while True:
            await asyncio.sleep(_LOOK_S)
            now_s = time.process_time()
            self.longest_ms = max(self.longest_ms, (now_s - before_s) * 1e3)
            before_s = now_s


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Bodies at the limit of values, and beyond it at the limit of bytes."""
    for what, bodies in _bodies().items():
        for name, (path, body) in bodies.items():
            progress(f"{what}: {name}")
            samples = in_child(paused, what, path, body, scale.nodes)
            figure = f"{what}, {name}, {scale.nodes:,} nodes: longest pause of the loop"
            note = (
                f"{len(body) / 1e6:.1f} MB; processor time; the second body in a process of its own"
            )
            yield Figure(figure, exact(samples[-1]), "ms", at_most(_BUDGET_MS), note)


def paused(what: str, path: str, body: bytes, nodes: int) -> Sequence[float]:
    """The longest pause while a body is received and answered, of two one after the other."""
    return uvloop.run(_paused(what, path, body, nodes))


async def _paused(what: str, path: str, body: bytes, nodes: int) -> Sequence[float]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "body"
        file.write_bytes(body)
        del body
        found = []
        async with _served(what, nodes) as url:
            for _ in range(2):  # the first one imports modules
                pauses = Pauses()
                watching = asyncio.ensure_future(pauses.watch())
                await asyncio.to_thread(in_child, send, url + path, str(file))
                watching.cancel()
                found.append(pauses.longest_ms)
        return found


@asynccontextmanager
async def _served(what: str, nodes: int) -> AsyncIterator[str]:
    apps: Mapping[str, Callable[[], web.Application]] = {
        "question": lambda: extender_app(ask_of([f"node-{number}" for number in range(nodes)])),
        "review": lambda: admission_app(_rules, "warn", AdmissionMetrics(prom.CollectorRegistry())),
    }
    connections = Connections("bench", 16, 1 << 26)
    site = Site(app=apps[what](), port=0, connections=connections, host=LOOPBACK, drain_s=0.1)
    async with AsyncExitStack() as stack:
        freeze_startup()
        shorten_switch_interval()
        collection = asyncio.ensure_future(collect_often())
        stack.callback(collection.cancel)
        ((_, port),) = await start(site, stack)
        yield f"http://{LOOPBACK}:{port}"


def _rules() -> Rules:
    return Rules(keys=AnnotationKeys("metax-tech.com"))


def send(url: str, file: str) -> int:
    """The status of the answer to one body."""
    return uvloop.run(_sent(url, Path(file)))


async def _sent(url: str, file: Path) -> int:
    async with ClientSession() as session:
        with file.open("rb") as content:
            async with session.post(url, data=content) as answer:
                await answer.read()
                return answer.status


def _bodies() -> Mapping[str, Mapping[str, tuple[str, bytes]]]:
    pod = {"metadata": {"name": "train-0", "namespace": "jobs", "uid": "pod-1"}}
    in_pod = orjson.dumps({"Pod": pod | {"spec": {"containers": _HOLE}}, "NodeNames": ["node-1"]})
    in_node = {"items": [{"metadata": {"name": "node-1", "labels": _HOLE}}]}
    names = [f"node-{number:06}" for number in range(MAX_VALUES - 20_100)]
    resources = {"limits": {"metax-tech.com/gpu": "8"}}
    asking = pod | {"spec": {"containers": [{"resources": resources}]}}
    numbers = range(QUESTION.members - 100)
    questions = {
        "4 million containers": (in_pod, [b"{}"] * (2_796_000)),
        "lists at the limit": (in_pod, [b"[]"] * (QUESTION.values // 2 - 20)),
        "objects at the limit": (in_pod, [b"{}"] * (QUESTION.values // 2 - 20)),
        "labels of a node": (orjson.dumps({"Pod": {}, "Nodes": in_node}), _members(numbers)),
    }
    found = {
        f"{name}, filter": (f"{PREFIX}/filter", _filled(*each)) for name, each in questions.items()
    }
    asked = orjson.dumps({"Pod": asking, "NodeNames": names})
    for call in ("filter", "prioritize", "predicates"):
        found[f"{len(names):,} names, {call}"] = (f"{PREFIX}/{call}", asked)
    return {"question": found, "review": _reviews()}


def _reviews() -> Mapping[str, tuple[str, bytes]]:
    kind = {"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"}
    template = {"metadata": {"annotations": {"metax-tech.com/gpu-group-size": "64"}}}
    limits = {"limits": {"metax-tech.com/gpu": "8"}}
    task = {
        "name": "w",
        "replicas": 8,
        "template": template | {"spec": {"containers": [{"resources": limits}] * 2}},
    }
    metadata = {"name": "a", "annotations": {"metax-tech.com/gpu-group-size": "64"}}
    whole = {
        "metadata": metadata,
        "spec": {"tasks": [task | {"name": f"w{n}"} for n in range(999)]},
    }
    tasks = {"metadata": metadata, "spec": {"tasks": _HOLE}}
    labels = {"metadata": {"name": "a", "annotations": _HOLE}, "spec": {"tasks": [task]}}
    half = REVIEW.values // 2 - 50
    frames = {
        "1.4 million tasks": (tasks, [b"{}"] * 1_390_000),
        "lists at the limit": (tasks, [b"[]"] * half),
        "objects at the limit": (tasks, [b"{}"] * min(half, REVIEW.objects - 50)),
        "annotations": (labels, _members(range(REVIEW.members - 100))),
        "999 tasks of two containers": (whole, []),
    }
    return {
        name: (PATH, _filled(orjson.dumps(_review(kind, found)), elements))
        for name, (found, elements) in frames.items()
    }


def _review(kind: Mapping[str, str], found: object) -> object:
    request = {"uid": "u", "kind": kind, "operation": "CREATE", "object": found}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _members(numbers: range) -> Sequence[bytes]:
    return [b'"%06x":""' % number for number in numbers]


def _filled(frame: bytes, elements: Sequence[bytes]) -> bytes:
    is_list = not elements or not elements[0].endswith(b':""')
    opened, closed = (b"[", b"]") if is_list else (b"{", b"}")
    return frame.replace(orjson.dumps(_HOLE), opened + b",".join(elements) + closed)
