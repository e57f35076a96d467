"""No work that grows with a body on the event loop, at any port that takes one.

The most expensive bodies that the limits of each call allow are sent to it. What is larger than the
port interprets inline is never interpreted on the loop's thread, and after each body another call
is answered. How long the loop pauses meanwhile stands in `bench/services/doors.py`.
"""

import ast
import gzip
import io
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import prometheus_client as prom
import pytest
from aiohttp import ClientSession, web

from master.admission import server as admission
from master.admission.metrics import AdmissionMetrics
from master.api.routes import ROUTES
from master.composition.api_limits import BODIES
from master.extender import server as extender
from master.rate_limits import SenderLimits
from master.sources.workers import port, sweep_calls, sweeps
from tests.admission.asking import asked
from tests.admission.samples import OBJECTS, RULE_SETS, SCALE
from tests.extender.model import asked as asking
from tests.kube.fake_server import fake_server
from tests.master.placing import WRITER, placing
from tests.master.world import TOKEN, running
from tests.support.expensive_bodies import HOLE, filled, frames
from topo.gangs.job_kinds.kinds import JOB_KINDS
from topo.kit.serving.body_reader import BodyLimits, BodyReader
from topo.kit.serving.connections import Connections
from topo.kit.tasks import Site, start
from topo.model.wire import REPORTS_PATH, SWEEPS_PATH

ROOT = Path(__file__).parents[1]
JOB = {
    "pods": 4,
    "gpus_per_pod": 8,
    "selector": {"a": "b"},
    "tolerations": [{"key": "a"}],
    "exclude": ["a"],
    "hold_s": 60,
}
GROUPS = {"groups": [{"nodes": [{"name": "a", "pods": 1}], "domains": [{}]}]}
FACTS = {
    "identity": {"name": "n", "boot_id": "b"},
    **{key: [{}] for key in ("gpus", "ports", "fabrics", "nics", "nic_neighbours", "probes")},
    "matrix": {"gpus": ["a"], "nics": ["b"], "links": [["a"]], "numa": [0], "cpus": [""]},
    "peers": {"server": "s", "peers": [{}]},
}
REPORT = {
    "v": 1,
    "node": "n",
    "instance": "12345678",
    "seq": 1,
    "kind": "full",
    "facts": FACTS,
    "counts": [{}],
}
QUESTION = {
    "Pod": {
        "metadata": {"name": "a", "namespace": "b", "uid": "c", "labels": {}},
        "spec": {
            "containers": [{"resources": {"limits": {"metax-tech.com/gpu": "1"}}}],
            "initContainers": [{}],
        },
    },
    "NodeNames": ["a"],
}
WHOLE = {"Pod": {}, "Nodes": {"items": [{"metadata": {"name": "a", "labels": {"b": "c"}}}]}}
DOORS: Mapping[tuple[str, str], tuple[BodyLimits, tuple[Any, ...]]] = {
    ("api", "/v1/placements"): (BODIES, (JOB | {"assume": {"free": ["a"]}},)),
    ("api", "/v1/holds"): (BODIES, (JOB | GROUPS,)),
    ("api", "/v1/holds/{id}/commit"): (BODIES, ({"": 0},)),
    ("api", "/v1/gangs/{id}/open"): (BODIES, ({"": 0},)),
    ("api", "/v1/nodes/{name}/quarantine"): (BODIES, ({"reason": "r", "link": "l"},)),
    ("api", "/v1/nodes/{name}/confirm"): (BODIES, ({"reason": "r", "link": "l"},)),
    ("api", "/v1/nodes/{name}/clear"): (BODIES, ({"reason": "r", "link": "l"},)),
    ("workers", REPORTS_PATH): (port.LIMITS, (REPORT,)),
    ("workers", SWEEPS_PATH): (sweep_calls.LIMITS, ({"ports": [{"port": "a"}], "trouble": ""},)),
    ("workers", f"{SWEEPS_PATH}/{{port}}/{{digest}}"): (sweep_calls.TEXTS, ("",)),
    ("admission", admission.PATH): (admission.LIMITS, ()),
    ("admission", admission.BY_LINKS_PATH): (admission.LIMITS, ()),
    ("extender", "/scheduler/filter"): (extender.LIMITS, (QUESTION, WHOLE)),
    ("extender", "/scheduler/prioritize"): (extender.LIMITS, (QUESTION, WHOLE)),
    ("extender", "/scheduler/predicates"): (extender.LIMITS, (QUESTION, WHOLE)),
}
"""Every call that has a body, by the application; its limits, and documents to fill."""


@dataclass
class Watched:
    """The bodies that a reader interpreted: whether on the loop, their bytes, and their braces."""

    loop: int = field(default_factory=threading.get_ident)
    seen: list[tuple[bool, int, int]] = field(default_factory=list)

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        real = BodyReader.interpreted

        async def interpreted(
            reader: BodyReader, content: bytes, interpret: Callable[[bytes], Any]
        ) -> Any:
            def noted(given: bytes) -> Any:
                is_on_loop = threading.get_ident() == self.loop
                opened = max(given.count(b"{"), given.count(b"["))
                self.seen.append((is_on_loop, len(given), opened))
                return interpret(given)

            return await real(reader, content, noted)

        patch.setattr(BodyReader, "interpreted", interpreted)

    def must_be_small(self, limits: BodyLimits) -> None:
        """What was interpreted on the loop is within what the limits let stand inline."""
        for is_on_loop, size, opened in self.seen:
            assert not is_on_loop or size <= limits.inline_bytes
            assert not is_on_loop or opened <= limits.inline_opened


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched()
    found.watch(monkeypatch)
    return found


def posts(app: web.Application) -> set[str]:
    """The paths of an application's calls that may have a body."""
    return {
        resource.canonical
        for resource in app.router.resources()
        for route in resource
        if route.method in {"POST", "PUT", "PATCH"}
    }


def bodies(documents: tuple[Any, ...], limits: BodyLimits) -> Iterator[tuple[str, bytes]]:
    """Every place of the documents filled in every way; at the limit of values as well."""
    for document in documents:
        for place, frame in frames(document) if document else [("", HOLE)]:
            for name, body in filled(frame, limits.max_bytes, limits.values, limits.members):
                yield f"{place}: {name}", body


async def answered(session: ClientSession, url: str, content: bytes, **headers: str) -> int:
    """The status of the answer; 413 where the connection was closed before all was sent."""
    try:
        async with session.post(url, data=io.BytesIO(content), headers=headers) as answer:
            await answer.read()
            return answer.status
    except OSError:
        return 413


def test_every_call_that_has_a_body_is_in_the_table() -> None:
    api = {each.path for each in ROUTES if each.method == "POST"}
    assert {path for name, path in DOORS if name == "api"} == api
    for limits, _ in DOORS.values():
        assert limits.inline_bytes <= 128 << 10
        assert limits.inline_opened <= 1024


async def filled_all(
    name: str, url: str, key: str, session: ClientSession, watched: Watched
) -> None:
    """Send every body to the calls of an application."""
    for (of, path), (limits, documents) in DOORS.items():
        if of != name or not limits.values:
            continue
        target = url + path.format(id="x", name="n0-0-0")
        for what, body in bodies(documents, limits):
            watched.seen.clear()
            status = await answered(session, target, body, Authorization=f"Bearer {key}")
            assert status < 500, (path, what)
            watched.must_be_small(limits)


@pytest.mark.slow
async def test_no_large_body_of_the_api_is_interpreted_on_the_loop(
    tmp_path: Path, watched: Watched
) -> None:
    async with placing(tmp_path) as caller:
        master = caller.master
        await filled_all("api", master.url, WRITER, master.session, watched)
        assert (await master.get("/health")).status == 200


@pytest.mark.slow
async def test_no_large_body_of_a_worker_is_interpreted_on_the_loop(
    tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who sends what cannot be read is soon told to wait, and here each body is to be read.
    monkeypatch.setattr(SenderLimits, "has_room", lambda *_: True)
    monkeypatch.setattr(sweeps, "CALLS_PER_S", 1e6)
    monkeypatch.setattr(sweeps, "CALLS_BURST", 1e6)
    token = tmp_path / "worker-token"
    token.write_text(f"n {TOKEN}\n")
    flags = (f"--worker-token-file={token}", "--fabric-sweep-nodes=n", "--mode=fabric")
    async with running(*flags) as master:
        known = posts(master.service.worker_port.app())
        assert {path for name, path in DOORS if name == "workers"} == known
        await filled_all("workers", master.reports_url, TOKEN, master.session, watched)
        assert (await master.get("/health")).status == 200


@dataclass(frozen=True)
class Port:
    """An application that is served alone."""

    url: str
    session: ClientSession


@pytest.fixture
async def webhook() -> AsyncIterator[Port]:
    rules = RULE_SETS["links"]
    app = admission.admission_app(lambda: rules, "deny", AdmissionMetrics(prom.CollectorRegistry()))
    assert {path for name, path in DOORS if name == "admission"} == posts(app)
    connections = Connections("admission", 100, 1 << 24)
    site = Site(app=app, port=0, connections=connections, host="127.0.0.1", drain_s=0.1)
    async with AsyncExitStack() as stack:
        ((_, number),) = await start(site, stack)
        session = await stack.enter_async_context(ClientSession())
        yield Port(f"http://127.0.0.1:{number}", session)


PLACES = ("containers", "labels", "annotations", "ownerReferences", "limits", "schedulingGates")
"""Members of objects that are filled, and those that hold all templates of a job."""
TEMPLATES = ("tasks", "replicatedJobs", "workerGroupSpecs", "runtimePatches", "dependsOn")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*sorted(OBJECTS), "scale"])
async def test_no_review_is_judged_on_the_loop_unless_it_is_small(
    watched: Watched, webhook: Port, name: str
) -> None:
    found = SCALE if name == "scale" else OBJECTS[name]
    limits = admission.LIMITS
    operation = "UPDATE" if name == "scale" else "CREATE"
    resource = {"group": JOB_KINDS[1].group, "resource": JOB_KINDS[1].resource}
    sent = orjson.loads(asked(found, operation=operation, oldObject=found, resource=resource))
    places = [
        (place, frame)
        for place, frame in frames(sent)
        if place.startswith("request.object.")
        and (place.rpartition(".")[2] in (*PLACES, *TEMPLATES) or place.count(".") == 2)
    ]
    assert places
    for place, frame in places:
        for what, body in filled(frame, limits.max_bytes // 8, limits.values, limits.members):
            watched.seen.clear()
            status = await answered(webhook.session, webhook.url + admission.PATH, body)
            assert status < 500, (place, what)
            watched.must_be_small(limits)
    status = await answered(webhook.session, webhook.url + admission.PATH, asked(OBJECTS["pod"]))
    assert status == 200


@pytest.mark.slow
async def test_no_large_question_of_a_scheduler_is_interpreted_on_the_loop(
    tmp_path: Path, watched: Watched
) -> None:
    async with fake_server() as server, asking(server, tmp_path) as found:
        app = found.master.service.extender
        assert app is not None
        assert {path for name, path in DOORS if name == "extender"} == posts(app.app)
        for path in sorted(path for name, path in DOORS if name == "extender"):
            limits, documents = DOORS["extender", path]
            for what, body in bodies(documents, limits):
                watched.seen.clear()
                assert await answered(found.session, found.url + path, body) == 200, what
                watched.must_be_small(limits)
            assert (await found.master.get("/health")).status == 200


async def test_a_packed_body_is_interpreted_as_what_is_in_it(
    webhook: Port, watched: Watched
) -> None:
    body = gzip.compress(asked(OBJECTS["pod"]) + b" " * admission.LIMITS.inline_bytes)
    url = webhook.url + admission.PATH
    assert await answered(webhook.session, url, body, **{"Content-Encoding": "gzip"}) == 200
    [(is_on_loop, size, _)] = watched.seen
    assert size > admission.LIMITS.inline_bytes
    assert not is_on_loop


READING = {"body_bytes", "bounded_bytes"}
READERS = {
    "topo/kit/serving/body.py",
    "topo/kit/serving/bodies.py",
    "topo/kit/serving/body_reader.py",
    "master/replicas/forwarding.py",
    "master/replicas/peer.py",
    "master/kube/client.py",
    "master/sources/cluster_manager/http.py",
}
"""Where bytes are read: the one reader of bodies, what sends them on as they came, and clients."""


def test_bodies_are_read_in_one_way() -> None:
    """No handler reads a body by itself, nor by the methods of aiohttp's requests."""
    found: set[str] = set()
    for path in [*(ROOT / "master").rglob("*.py"), *(ROOT / "topo/kit").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
            of = getattr(node, "value", None)
            is_of_request = isinstance(of, ast.Name) and of.id == "request"
            if name in READING or (is_of_request and name in {"read", "json", "text", "post"}):
                found.add(str(path.relative_to(ROOT)))
    assert found == READERS
