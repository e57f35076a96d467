"""The simulated Kubernetes as a process: its API over HTTPS, its controllers, its journal.

It serves what the product asks a real API server for (`apiserver.api`), to whoever shows the token
of one of the kubeconfigs in its directory (`access`).
"""

import asyncio
import hmac
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import aiohttp
import orjson
from aiohttp import web

from topo.kit.tasks import on_signals
from topo.kit.tls import server_context
from topo.kit.tokens import bearer
from topo.sim.certificates import Authority
from topo.sim.kubernetes.access import USERS, KubeAccess, kubeconfig_file
from topo.sim.kubernetes.apiserver.admission import Services
from topo.sim.kubernetes.apiserver.api import Api, ApiRequest
from topo.sim.kubernetes.apiserver.journal import Journal
from topo.sim.kubernetes.apiserver.resources import ObjectPath
from topo.sim.kubernetes.apiserver.statuses import RefusedError, bad_request, not_served
from topo.sim.kubernetes.apiserver.watches import lines_since
from topo.sim.kubernetes.cluster import SimulatedCluster
from topo.sim.kubernetes.install import install
from topo.sim.worlds.presets import SimNode

LOOPBACK = "127.0.0.1"
MAX_BODY_BYTES = 3 << 20
"""What kube-apiserver takes. Source: k8s.io/apiserver, MaxRequestBodyBytes."""
_JOURNAL = "objects.jsonl"
_WATCH_S = 300.0
"""How long a watch lasts that names no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """What to serve and where; `services` says where the webhooks' Services are reached."""

    directory: Path
    nodes: Iterable[SimNode]
    port: int = 0
    services: Services = field(default_factory=dict)


async def serve(settings: KubernetesSettings) -> None:
    """Serve until SIGTERM, SIGINT or cancellation. Raises `OSError` for a port in use."""
    stop = asyncio.Event()
    with on_signals(lambda _: stop.set(), signal.SIGTERM, signal.SIGINT):
        async with simulated_kubernetes(settings):
            await stop.wait()


@asynccontextmanager
async def simulated_kubernetes(settings: KubernetesSettings) -> AsyncIterator[SimulatedCluster]:
    """A cluster that runs and is served; its objects are kept in the journal of its directory."""
    cluster = SimulatedCluster(settings.services)
    journal = Journal(settings.directory / _JOURNAL, cluster.store)
    journal.open()
    install(cluster, settings.nodes)
    cluster.begin()
    tls = server_context(*Authority.at(settings.directory).leaf("kubernetes", LOOPBACK))
    tokens = [
        KubeAccess.read(kubeconfig_file(settings.directory, user)).token.encode() for user in USERS
    ]
    frontend = Frontend(cluster.api, tokens)
    runner = web.AppRunner(
        frontend.app(),
        access_log=None,
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=0.2,
    )
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        cluster.webhooks.session = session
        works = [asyncio.create_task(work()) for work in (cluster.run, cluster.send_bookmarks)]
        try:
            await runner.setup()
            await web.TCPSite(runner, LOOPBACK, settings.port, ssl_context=tls).start()
            for work in works:
                work.add_done_callback(_end_with)
            yield cluster
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            await runner.cleanup()
            journal.close()


def _end_with(work: "asyncio.Task[None]") -> None:
    """End the process where the cluster failed: nothing would be scheduled any more."""
    if not work.cancelled() and (error := work.exception()) is not None:
        raise SystemExit(f"the simulated cluster failed: {error!r}") from error


class Frontend:
    """The API on HTTP: who asks, one document for each call, lines for a watch."""

    def __init__(self, api: Api, tokens: Iterable[bytes]) -> None:
        self._api, self._tokens = api, tuple(tokens)
        self._waiting: set[asyncio.Event] = set()
        api.store.listeners.append(lambda _: self._wake())

    def app(self) -> web.Application:
        """Return the application: one handler for all paths."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self.handle)
        return app

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer any request."""
        if not self._is_known(request):
            body = {"kind": "Status", "code": 401, "reason": "Unauthorized"}
            return _answer(HTTPStatus.UNAUTHORIZED, body)
        try:
            if request.query.get("watch") == "true":
                return await self._watch(request)
            asked = await _read(request)
            found = await self._api.answer(asked)
        except RefusedError as error:
            return _answer(error.code, error.document)
        status = HTTPStatus.CREATED if request.method == "POST" else HTTPStatus.OK
        return _answer(status, found, asked.warnings)

    def _is_known(self, request: web.Request) -> bool:
        shown = (bearer(request.headers) or "").encode()
        return sum(hmac.compare_digest(shown, token) for token in self._tokens) > 0

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        place = self._api.kinds.find(request.path)
        if place is None or place.name:
            raise not_served()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            async with asyncio.timeout(_seconds(request.query)):
                await self.follow(response, place, request.query)
        except (TimeoutError, ConnectionError):
            pass
        return response

    async def follow(
        self, response: web.StreamResponse, place: ObjectPath, query: Mapping[str, str]
    ) -> None:
        """Write the lines of a watch until its version is forgotten."""
        after, store, news = int(query["resourceVersion"]), self._api.store, asyncio.Event()
        self._waiting.add(news)
        try:
            while True:
                news.clear()
                now, is_lost = store.version, store.since(after) is None
                for line in lines_since(store, place, query, after):
                    await response.write(line)
                if is_lost:
                    return
                after = now
                await news.wait()
        finally:
            self._waiting.discard(news)


async def _read(request: web.Request) -> ApiRequest:
    return ApiRequest(
        method=request.method,
        path=request.path,
        query=request.query,
        body=await request.read() or None,
        content_type=request.content_type,
        accept=request.headers.get("Accept", ""),
    )


def _seconds(query: Mapping[str, str]) -> float:
    """Return how long a watch is to last. Raises `RefusedError` (400)."""
    if not query.get("resourceVersion", "").isdecimal():
        raise bad_request("resourceVersion: Invalid value")
    text = query.get("timeoutSeconds", "")
    return float(text) if text.isdecimal() else _WATCH_S


def _answer(status: int, document: object, warnings: Iterable[str] = ()) -> web.Response:
    body = orjson.dumps(document)
    answer = web.Response(status=status, body=body, content_type="application/json")
    for text in warnings:
        shown = text.replace("\\", " ").replace('"', "'")
        answer.headers.add("Warning", f'299 - "{shown}"')
    return answer
