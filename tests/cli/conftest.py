"""A small real HTTP server that speaks the master's documents, and a way to run `topo`."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from typer.testing import CliRunner, Result

from tests.cli import gang_samples, samples
from tests.support.waiting import CEILING_S
from topo.cli.demo_directory import Demo, DemoDirectory
from topo.cli.main import app
from topo.model.rest.generation_id import GenerationId
from topo.sim.bundles import write_bundle
from topo.sim.worlds.presets import demo_world

if TYPE_CHECKING:
    from concurrent.futures import Future

NODES = tuple(f"node-sample{n}" for n in range(1, 9))
"""Of the demo's world."""


class FakeMaster:
    """Serves what the test sets, from a thread of its own; every method is for the test's thread.

    `broken` maps a path to the (status, body, headers) that it answers instead.
    """

    def __init__(self) -> None:
        self.document: Any = samples.healthy()
        self.changes: list[Any] = []
        self.broken: dict[str, tuple[int, str, dict[str, str]]] = {}
        self.placement: Any = samples.placement()
        self.holds: list[Any] = [samples.hold()]
        self.gangs: list[Any] = [gang_samples.gang()]
        self.ahead: list[Any] = []
        self.fragmentation: Any = samples.fragmentation()
        self.bodies: list[Any] = []
        self.asked: list[web.BaseRequest] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._listeners: set[asyncio.Queue[str | None]] = set()
        self._runner: web.AppRunner | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._do(self._start()).result(CEILING_S)

    def stop(self) -> None:
        """Closes the port and every connection; `start` opens the same port again."""
        self._do(self._stop()).result(CEILING_S)

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CEILING_S)
        self._loop.close()

    def publish(self, document: Any, changes: list[Any]) -> None:
        """A new generation: the document from now on, and an event to everybody who follows."""
        self.document, self.changes = document, self.changes + changes
        data = _json({"generation": document["generation"], "changes": changes})
        at = GenerationId(document["generation"], document.get("run", ""))
        self.say(f"id: {at}\nevent: change\ndata: {data}\n\n")

    def say(self, text: str | None) -> None:
        """Text for every event stream; None ends the streams."""

        async def tell() -> None:
            for listener in self._listeners:
                listener.put_nowait(text)

        self._do(tell()).result(CEILING_S)

    def has_listener(self) -> bool:
        return bool(self._listeners)

    def _do(self, work: Coroutine[Any, Any, None]) -> "Future[None]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _start(self) -> None:
        fake = web.Application(middlewares=[self._middleware])
        fake.add_routes(
            [
                web.get("/health", self._ok),
                web.get("/ready", self._ok),
                web.get("/openapi.json", self._openapi),
                web.get("/v1/topology", self._topology),
                web.get("/v1/topology/diff", self._diff),
                web.get("/v1/topology/events", self._events),
                web.post("/v1/placements", self._place),
                web.get("/v1/fragmentation", self._fragmentation),
                web.get("/v1/gangs", self._list_gangs),
                web.get("/v1/gangs/{id}", self._gang),
                web.post("/v1/gangs/{id}/open", self._gang),
                web.get("/v1/holds", self._list_holds),
                web.get("/v1/holds/{id}", self._hold),
                web.post("/v1/holds/{id}/commit", self._hold),
                web.delete("/v1/holds/{id}", self._released),
            ]
        )
        self._runner = web.AppRunner(fake, shutdown_timeout=0.1)
        fake.on_response_prepare.append(_close_after)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        """The port first: whoever asks again when the streams end is refused."""
        for site in tuple(self._runner.sites) if self._runner is not None else ():
            await site.stop()
        for listener in self._listeners:
            listener.put_nowait(None)
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(request)
        if told := self.broken.get(request.path):
            status, body, headers = told
            return web.Response(status=status, text=body, headers=headers)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _ok(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _openapi(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"openapi": "3.1.0", "info": {"version": version("supernode-topology")}}
        )

    async def _topology(self, request: web.Request) -> web.Response:
        if (name := request.query.get("node")) and f'"{name}"' not in _json(self.document):
            problem = {"title": "Not Found", "detail": f"no node {name}", "fix": "topo tree"}
            return web.json_response(problem, status=404, content_type="application/problem+json")
        return web.json_response(self.document)

    async def _place(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        return web.json_response(self.placement)

    async def _fragmentation(self, _: web.Request) -> web.Response:
        return web.json_response(self.fragmentation)

    async def _list_gangs(self, request: web.Request) -> web.Response:
        wanted = {key: request.query.get(key) for key in ("namespace", "pod")}
        short = [
            {key: value for key, value in gang.items() if key not in ("members", "groups")}
            for gang in self.gangs
            if wanted["namespace"] in {None, gang["namespace"]}
            and wanted["pod"] in {None, *(pod["name"] for pod in gang.get("members", ()))}
        ]
        return web.json_response({"gangs": short, "ahead": self.ahead})

    async def _gang(self, request: web.Request) -> web.Response:
        (found,) = [gang for gang in self.gangs if gang["id"] == request.match_info["id"]]
        return web.json_response(found)

    async def _list_holds(self, _: web.Request) -> web.Response:
        short = [{k: v for k, v in h.items() if k not in ("groups", "lost")} for h in self.holds]
        return web.json_response({"holds": short})

    async def _hold(self, request: web.Request) -> web.Response:
        found = [hold for hold in self.holds if hold["id"] == request.match_info["id"]]
        if found:
            return web.json_response(found[0])
        problem = {"detail": "there is no such hold", "field": "id", "fix": "it may have expired"}
        return web.json_response(problem, status=404, content_type="application/problem+json")

    async def _released(self, request: web.Request) -> web.Response:
        answer = await self._hold(request)
        return web.Response(status=204) if answer.status == 200 else answer

    async def _diff(self, request: web.Request) -> web.Response:
        since, until = (int(request.query[key].partition(".")[0]) for key in ("from", "to"))
        moved = [c for c in self.changes if since < c["generation"] <= until]
        return web.json_response({"from": since, "to": until, "changes": moved})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": hello\r\n\r\n")
        since = int(request.query["since"].partition(".")[0])
        for change in self.changes:
            if change["generation"] > since:
                data = _json({"generation": change["generation"], "changes": [change]})
                at = GenerationId(change["generation"], self.document.get("run", ""))
                await response.write(f"event: change\nid: {at}\ndata: {data}\n\n".encode())
        listener: asyncio.Queue[str | None] = asyncio.Queue()
        self._listeners.add(listener)
        try:
            while (text := await listener.get()) is not None:
                await response.write(text.encode())
        finally:
            self._listeners.discard(listener)
        return response


async def _close_after(_: web.Request, response: web.StreamResponse) -> None:
    """No connection is used twice, so that none is left over when the master stops."""
    response.force_close()
    response.headers["Connection"] = "close"


def _json(value: Any) -> str:
    return json.dumps(value)


@pytest.fixture
def fake_master() -> Iterator[FakeMaster]:
    fake = FakeMaster()
    fake.start()
    yield fake
    fake.close()


@pytest.fixture(autouse=True)
def _no_demo_of_the_developer(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a running demo nor the caller's settings may reach a test."""
    monkeypatch.setenv("TOPO_DEMO_DIR", str(tmp_path_factory.mktemp("demo") / "none"))
    for name in ("TOPO_MASTER", "TOPO_TOKEN_FILE", "TOPO_CA_FILE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


Topo = Callable[..., Result]


@pytest.fixture
def topo(fake_master: FakeMaster) -> Topo:
    """Runs `topo` against the fake master in this process."""

    def run(*arguments: str, **more: Any) -> Result:
        more.setdefault("env", {"TOPO_MASTER": fake_master.url, "NO_COLOR": "1"})
        return CliRunner().invoke(app, [*arguments], **more)

    return run


@pytest.fixture
def home() -> Iterator[DemoDirectory]:
    with DemoDirectory() as made:
        yield made


@pytest.fixture
def demo(home: DemoDirectory) -> Demo:
    """A demo that other terminals find, without any process."""
    recordings = home.path / "recordings"
    for node in demo_world().nodes:
        write_bundle(recordings / node.name, node)
    told = Demo("http://127.0.0.1:9", str(recordings), NODES, "demo", {"topo-master": 42})
    home.publish(told)
    return told
