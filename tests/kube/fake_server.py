"""An API server on a real socket that misbehaves as asked: what no real one can be made to show.

It keeps objects, versions and a log of what happened, and answers lists in pages and watches with
bookmarks, as kube-apiserver does. A test puts faults before it; each spoils one answer.
"""

import asyncio
import copy
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.kube.plain import serving

Document = dict[str, Any]
Key = tuple[str, str, str]
"""Plural, namespace, name."""
FOREVER_S = 1e6

KINDS = {"nodes": "Node", "pods": "Pod", "configmaps": "ConfigMap", "hypernodes": "HyperNode"}


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
    objects: dict[Key, Document] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    faults: dict[str, deque[Fault]] = field(
        default_factory=lambda: {"list": deque(), "watch": deque()}
    )
    always: dict[str, Fault] = field(default_factory=dict)
    """By verb: the fault of every request that has none of its own."""
    version: int = 100
    oldest: int = 0
    """What happened up to this version is not known any more."""
    _log: list[tuple[int, str, Document]] = field(default_factory=list)
    _lists: dict[str, tuple[int, list[Document]]] = field(default_factory=dict)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _watches: set[Reply] = field(default_factory=set)

    # What a test does.

    async def put(self, plural: str, name: str, namespace: str = "", **parts: Any) -> None:
        """Creates the object, or writes it anew."""
        key = (plural, namespace, name)
        kind = "MODIFIED" if key in self.objects else "ADDED"
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        metadata |= parts.pop("metadata", {})
        await self._write(kind, key, {"kind": KINDS[plural], "metadata": metadata, **parts})

    async def delete(self, plural: str, name: str, namespace: str = "") -> None:
        """Takes the object away."""
        key = (plural, namespace, name)
        await self._write("DELETED", key, copy.deepcopy(self.objects[key]))

    async def bookmark(self) -> None:
        """Tells every watch that nothing happened up to a later version."""
        self.version += 1
        mark = {"metadata": {"resourceVersion": str(self.version), "creationTimestamp": None}}
        await self._announce(self.version, "BOOKMARK", mark)

    def compact(self) -> None:
        """Forgets what happened and every list under way, as etcd does."""
        self.oldest = self.version
        self._lists.clear()

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

    async def _write(self, kind: str, key: Key, document: Document) -> None:
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        if kind == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = document
        await self._announce(self.version, kind, document)

    async def _announce(self, version: int, kind: str, document: Document) -> None:
        self._log.append((version, kind, document))
        async with self._news:
            self._news.notify_all()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request."""
        verb = "watch" if request.query.get("watch") == "true" else "list"
        query = dict(request.query)
        self.asked.append(Asked(verb, query, asyncio.get_running_loop().time()))
        reply = Reply(request, web.StreamResponse(headers={"Content-Type": "application/json"}))
        parts = request.path.strip("/").split("/")
        plural = parts[-1]
        namespace = parts[-2] if "namespaces" in parts else ""
        fault = self.faults[verb].popleft() if self.faults[verb] else self.always.get(verb)
        if verb == "list":
            page = self._page(plural, namespace, query)
            if fault is not None:
                return await fault(reply, iter([json.dumps(page).encode()]))
            return web.json_response(page, status=page.get("code", 200))
        if fault is not None:
            return await fault(reply, self._lines(plural, namespace, int(query["resourceVersion"])))
        return await self._watch(reply, plural, namespace, query)

    def _page(self, plural: str, namespace: str, query: Mapping[str, str]) -> Document:
        token = query.get("continue", "")
        version, items = self._lists.get(token, (self.version, None))
        if items is None:
            if token:
                return expired("the provided continue parameter is too old")
            items = [
                document
                for (kind, inside, _), document in sorted(self.objects.items())
                if kind == plural and namespace in ("", inside)
            ]
        limit = int(query.get("limit", len(items) or 1))
        rest = items[limit:]
        following = f"{version}-{len(rest)}" if rest else ""
        if rest:
            self._lists[following] = version, rest
        metadata = {"resourceVersion": str(version), "continue": following}
        return {"kind": f"{KINDS[plural]}List", "metadata": metadata, "items": items[:limit]}

    def _lines(self, plural: str, namespace: str, after: int) -> Iterator[bytes]:
        """What is known to have happened since."""
        if after < self.oldest:
            yield line("ERROR", expired("too old resource version"))
            return
        for version, kind, document in self._log:
            inside = document["metadata"].get("namespace", "")
            is_meant = document.get("kind") in (KINDS[plural], None) and namespace in ("", inside)
            if version > after and (is_meant or kind == "BOOKMARK"):
                yield line(kind, document)

    async def _watch(
        self, reply: Reply, plural: str, namespace: str, query: Mapping[str, str]
    ) -> web.StreamResponse:
        await reply.begin()
        after = int(query["resourceVersion"])
        self._watches.add(reply)
        try:
            async with asyncio.timeout(float(query["timeoutSeconds"])):
                while True:
                    now = self.version
                    for each in self._lines(plural, namespace, after):
                        await reply.write(each)
                    if after < self.oldest:
                        break
                    after = now
                    async with self._news:
                        while self.version == now:
                            await self._news.wait()
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self._watches.discard(reply)
        return reply.response


def line(kind: str, document: Document) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": kind, "object": document}).encode() + b"\n"


def expired(message: str) -> Document:
    """What kube-apiserver says of a version that it does not have any more."""
    return {"kind": "Status", "code": 410, "reason": "Expired", "message": message}


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
        page = json.loads(next(pages))
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
