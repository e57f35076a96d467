"""An API server on a real socket that misbehaves as asked: what no real one can be made to show.

The simulated API server keeps its objects and versions and says what lists and watches answer. A
test puts faults before it; each spoils one answer.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from master.kube.schedulers.hypernodes import HYPERNODES
from tests.kube.api_model import new_store, served
from tests.kube.plain import serving
from topo.sim.kubernetes.apiserver.api import Api, ApiRequest
from topo.sim.kubernetes.apiserver.field_owners import Stored
from topo.sim.kubernetes.apiserver.resources import STOCK_KINDS, ObjectPath, ServedKinds
from topo.sim.kubernetes.apiserver.statuses import RefusedError
from topo.sim.kubernetes.apiserver.store import ObjectStore
from topo.sim.kubernetes.apiserver.watches import lines_since
from topo.sim.kubernetes.server import Frontend

Document = dict[str, Any]
Key = tuple[str, str, str]
"""Plural, namespace, name."""
FOREVER_S = 1e6
_SERVED = (*STOCK_KINDS, served(HYPERNODES))
_KINDS = {kind.plural: kind for kind in _SERVED}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: `verb` is list or watch."""

    verb: str
    query: Mapping[str, str]
    at_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """A watch or list under way: the fault writes to it as it likes."""

    request: web.Request
    response: web.StreamResponse

    async def begin(self) -> None:
        await self.response.prepare(self.request)

    async def write(self, data: bytes) -> None:
        await self.response.write(data)

    def cut(self) -> None:
        """Ends the connection in the middle of the answer, where it has not ended already."""
        if self.request.transport is not None:
            self.request.transport.abort()


Fault = Callable[[Reply, Iterator[bytes]], Awaitable[web.StreamResponse]]
"""Answers instead of the server, which would have written these parts: pages or lines."""


@dataclass(slots=True)
class FakeServer:
    """What the server holds and what it was asked."""

    url: str = ""
    store: ObjectStore = field(default_factory=new_store)
    asked: list[Asked] = field(default_factory=list)
    faults: dict[str, deque[Fault]] = field(
        default_factory=lambda: {"list": deque(), "watch": deque()}
    )
    always: dict[str, Fault] = field(default_factory=dict)
    """By verb: the fault of every request that has none of its own."""
    _api: Api = field(init=False)
    _frontend: Frontend = field(init=False)
    _watches: set[Reply] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._api = Api(self.store, ServedKinds(_SERVED))
        self._frontend = Frontend(self._api, ())

    # What a test does.

    @property
    def objects(self) -> dict[Key, Document]:
        """What there is."""
        found = ((key, stored.document) for key, stored in self.store.objects.items())
        return {
            (at.rpartition("/")[2], document["metadata"].get("namespace", ""), name): document
            for (at, name), document in found
        }

    async def put(self, plural: str, name: str, namespace: str = "", **parts: Any) -> None:
        """Creates the object, or writes it anew."""
        kind, key = _KINDS[plural], (_KINDS[plural].collection(namespace), name)
        before = self.store.objects.get(key)
        uid = before.document["metadata"]["uid"] if before is not None else self.store.new_uid()
        metadata = {"name": name, "uid": uid, **parts.pop("metadata", {})}
        if namespace:
            metadata["namespace"] = namespace
        if "deletionTimestamp" in metadata:  # else it would be gone at once
            metadata.setdefault("finalizers", ["tests/kubelet"])
        document = {"kind": kind.kind, "metadata": metadata, **parts}
        self.store.objects[key] = Stored(document)
        self.store.record(*key)

    async def delete(self, plural: str, name: str, namespace: str = "") -> None:
        """Takes the object away."""
        self.store.forget(_KINDS[plural].collection(namespace), name)

    async def bookmark(self) -> None:
        """Tells every watch that nothing happened up to a later version."""
        self.store.bookmark()

    def compact(self) -> None:
        """Forgets what happened and every list under way, as etcd does."""
        self.store.compact()
        self._api.forget_lists()

    def lose_history(self) -> None:
        """Forgets what happened up to a version that no watch has seen."""
        self.store.version += 1
        self.compact()

    def lose_objects(self) -> None:
        """Answers from an empty store."""
        for at, name in list(self.store.objects):
            self.store.restore(at, name, None, self.store.version)
        self.lose_history()

    def cut_watches(self) -> None:
        """Ends the connections of all watches."""
        for watch in list(self._watches):
            watch.cut()

    def spoil(self, verb: str, *faults: Fault) -> None:
        """The next answers to this verb are spoilt so."""
        self.faults[verb].extend(faults)

    def count(self, verb: str) -> int:
        """How often this was asked, a list of several pages several times."""
        return sum(asked.verb == verb for asked in self.asked)

    # What it answers.

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request."""
        is_watch = request.query.get("watch") == "true"
        verb, query = ("watch" if is_watch else "list"), request.query
        self.asked.append(Asked(verb, dict(query), asyncio.get_running_loop().time()))
        reply = Reply(request, web.StreamResponse(headers={"Content-Type": "application/json"}))
        fault = self.faults[verb].popleft() if self.faults[verb] else self.always.get(verb)
        place = self._api.kinds.find(request.path)
        if is_watch and place is not None:
            if fault is None:
                return await self._watch(reply, place, query)
            after = int(query["resourceVersion"])
            return await fault(reply, lines_since(self.store, place, query, after))
        status, document = await self._answer(request)
        if fault is not None:
            return await fault(reply, iter([orjson.dumps(document)]))
        return web.json_response(document, status=status)

    async def _answer(self, request: web.Request) -> tuple[int, Document]:
        asked = ApiRequest(
            method=request.method,
            path=request.path,
            query=request.query,
            body=await request.read() or None,
            content_type=request.content_type,
        )
        try:
            return 200, await self._api.answer(asked)
        except RefusedError as error:
            return error.code, error.document

    async def _watch(
        self, reply: Reply, place: ObjectPath, query: Mapping[str, str]
    ) -> web.StreamResponse:
        await reply.begin()
        self._watches.add(reply)
        try:
            async with asyncio.timeout(float(query["timeoutSeconds"])):
                await self._frontend.follow(reply.response, place, query)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self._watches.discard(reply)
        return reply.response


# Faults.


def refused(code: int, retry_after_s: int | None = None, **said: Any) -> Fault:
    """Answers that status."""

    async def fault(_: Reply, _parts: Iterator[bytes]) -> web.StreamResponse:
        status = {"kind": "Status", "code": code, "reason": "", "message": f"refused {code}"}
        headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        return web.json_response(status | said, status=code, headers=headers)

    return fault


def says(body: bytes, *, status: int = 200) -> Fault:
    """Answers something else altogether."""

    async def fault(_: Reply, _parts: Iterator[bytes]) -> web.StreamResponse:
        return web.Response(body=body, status=status, content_type="text/html")

    return fault


async def truncated(reply: Reply, parts: Iterator[bytes]) -> web.StreamResponse:
    """Ends in order, in the middle of what it says."""
    await reply.begin()
    with suppress(StopIteration):
        whole = next(parts)
        await reply.write(whole[: len(whole) // 2])
    return reply.response


async def cut_each_line(reply: Reply, parts: Iterator[bytes]) -> web.StreamResponse:
    """Cuts the connection after one whole line and half of the next."""
    await reply.begin()
    with suppress(StopIteration):
        await reply.write(next(parts))
        following = next(parts)
        await reply.write(following[: len(following) // 2])
    await asyncio.sleep(0)
    reply.cut()
    return reply.response


async def ended_at_once(reply: Reply, _: Iterator[bytes]) -> web.StreamResponse:
    """An answer in order, without a line."""
    await reply.begin()
    return reply.response


async def stalled(reply: Reply, parts: Iterator[bytes]) -> web.StreamResponse:
    """Half of what it says, and then nothing, for ever."""
    await reply.begin()
    whole = next(parts, b"{")
    await reply.write(whole[: len(whole) // 2])
    await asyncio.sleep(FOREVER_S)
    return reply.response


async def dripping(reply: Reply, parts: Iterator[bytes]) -> web.StreamResponse:
    """A byte a second (slow loris)."""
    await reply.begin()
    with suppress(ConnectionError):
        for byte in next(parts, b" " * 1000):
            await reply.write(bytes([byte]))
            await asyncio.sleep(1)
        await asyncio.sleep(FOREVER_S)
    return reply.response


async def endless_line(reply: Reply, _: Iterator[bytes]) -> web.StreamResponse:
    """A line of 8 MiB."""
    await reply.begin()
    with suppress(ConnectionError):
        for _part in range(8):
            await reply.write(b"x" * (1 << 20))
    return reply.response


def with_odd_object(name: str, **parts: Any) -> Fault:
    """The page as it is, and one object more that is not as it should be."""

    async def fault(_: Reply, pages: Iterator[bytes]) -> web.StreamResponse:
        page = orjson.loads(next(pages))
        page["items"].append({"metadata": {"name": name}, **parts})
        return web.json_response(page)

    return fault


@asynccontextmanager
async def fake_server() -> AsyncIterator[FakeServer]:
    """A server that is up."""
    server = FakeServer()
    async with serving(server.handle) as url:
        server.url = url
        try:
            yield server
        finally:
            server.cut_watches()
