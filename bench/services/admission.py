"""Reviews of the admission webhook over TLS, asked by another process as an API server asks."""

import asyncio
import datetime as dt
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import orjson
import prometheus_client as prom
import uvloop
from aiohttp import ClientSession, TCPConnector

from bench.figure import Figure, at_most, exact, p99
from bench.processes import LOOPBACK, in_child
from bench.scale import CannotRunError, Progress, Scale
from master.admission.certificates import Pair, issue
from master.admission.metrics import AdmissionMetrics
from master.admission.server import ANSWERS_BYTES, CONNECTIONS, PATH, admission_app
from topo.gangs.admission.outcome import Rules
from topo.gangs.annotation_keys import TASK_INDEX, AnnotationKeys
from topo.gangs.stamp import Stamp
from topo.kit.serving.connections import Connections
from topo.kit.tasks import Site, start
from topo.kit.tls import empty_server_context, load_pair

_NAME = "topo-master-admission.topo.svc"
_WORDS = AnnotationKeys("metax-tech.com")
_WARM_UP = 50
_BUDGET_MS = 5.0


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """What a new job and a new pod wait for the webhook."""
    for name, content in (("the vendor's job", _job()), ("one of its pods", _pod())):
        progress(f"{scale.churn_calls} reviews of {name}")
        samples, cpu_ms = uvloop.run(_served(content, scale.churn_calls))
        note = "one kept connection; from the first byte sent to the answer read"
        figure = f"review of {name} over TLS: p99 latency"
        yield Figure(figure, p99(samples), "ms", at_most(_BUDGET_MS), note)
        note = "TLS and HTTP inside, whatever else the machine does"
        yield Figure(f"processor time of the webhook for {name}", exact(cpu_ms), "ms", note=note)


async def _served(content: bytes, calls: int) -> tuple[Sequence[float], float]:
    """The times of the calls, and this process's own for each."""
    pair = issue((_NAME,), dt.datetime.now(dt.UTC), dt.timedelta(days=1))
    tls = empty_server_context()
    load_pair(tls, pair.chain, pair.key)
    site = Site(
        app=admission_app(
            lambda: Rules(keys=_WORDS), "warn", AdmissionMetrics(prom.CollectorRegistry())
        ),
        port=0,
        connections=Connections("admission", CONNECTIONS, ANSWERS_BYTES),
        host=LOOPBACK,
        tls=tls,
        drain_s=0.1,
    )
    async with AsyncExitStack() as stack:
        ((_, port),) = await start(site, stack)
        began_s = time.process_time()
        samples = await asyncio.to_thread(in_child, asked, port, pair, content, calls)
        return samples, (time.process_time() - began_s) * 1e3 / (calls + _WARM_UP)


def asked(port: int, pair: Pair, content: bytes, calls: int) -> Sequence[float]:
    """The time of each call in milliseconds; raises `CannotRunError` for another answer."""
    return uvloop.run(_asked(port, pair, content, calls))


async def _asked(port: int, pair: Pair, content: bytes, calls: int) -> Sequence[float]:
    trust = ssl.create_default_context(cadata=pair.authority.decode())
    url, samples = f"https://{LOOPBACK}:{port}{PATH}", []
    async with ClientSession(connector=TCPConnector(ssl=trust, limit=1)) as session:
        for _ in range(calls + _WARM_UP):
            began_s = time.perf_counter()
            async with session.post(url, data=content, server_hostname=_NAME) as answer:
                said = await answer.read()
            samples.append((time.perf_counter() - began_s) * 1e3)
            if answer.status != 200 or b"JSONPatch" not in said:
                raise CannotRunError(f"the webhook answers {answer.status}")
    return samples[_WARM_UP:]


def _template(annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"limits": {"metax-tech.com/gpu": 8}}}
    made: dict[str, Any] = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {"metadata": {"annotations": annotations}, **made} if annotations else made


def _job() -> bytes:
    tasks = [
        {"name": "master", "replicas": 1, "template": _template({_WORDS.size: "64"})},
        {"name": "worker", "replicas": 7, "template": _template()},
    ]
    job = {"metadata": {"name": "pytorch-demo"}, "spec": {"tasks": tasks}}
    return _review({"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"}, job)


def _pod() -> bytes:
    stamped = Stamp(8, 1, 8).annotations(_WORDS)
    pod = _template({_WORDS.size: "64", TASK_INDEX: "3", **stamped})
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return _review({"group": "", "version": "v1", "kind": "Pod"}, pod)


def _review(kind: Mapping[str, str], found: Mapping[str, Any]) -> bytes:
    request = {"uid": "u", "kind": kind, "operation": "CREATE", "object": found}
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return orjson.dumps({**head, "request": request})
