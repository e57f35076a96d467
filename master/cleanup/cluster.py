"""The cluster that is cleaned: its objects, and writes at a limited rate."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import orjson

from master.kube.client import Call, Caller, unlimited
from master.kube.errors import KubeError
from master.kube.objects import KubeObject, Resource
from master.kube.reading import read_all
from master.kube.writing.writes import MANAGER_PREFIX, Write, call_of

MANAGER = f"{MANAGER_PREFIX}cleanup"
"""The field manager of all writes of a clean-up."""
TOGETHER = 16
"""Concurrent writes: nothing else limits their number."""

T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedCluster:
    """The cluster that is cleaned. `rate` waits until a request is allowed."""

    client: Caller
    namespace: str
    domain: str
    webhook: str
    """The name of the MutatingWebhookConfiguration."""
    rate: Callable[[], Awaitable[None]] = unlimited

    async def call(self, call: Call) -> bytes:
        """Return the body of the 2xx answer, once the rate allows the call. Raises `KubeError`."""
        await self.rate()
        return await self.client.call(call)

    async def send(self, method: str, path: str, body: object) -> None:
        """Send a document. Raises `KubeError`."""
        content = orjson.dumps(body)
        await self.call(Call(method=method, path=path, body=content, urgent=True, timeout_s=30))

    async def write(self, write: Write) -> None:
        """Send a write; one whose object is gone or replaced counts as done. Raises `KubeError`."""
        try:
            await self.call(call_of(write))
        except KubeError as error:
            if not (error.is_missing or error.is_conflict):
                raise

    async def objects(
        self, resource: Resource[T], namespace: str = "", *, may_lack: bool = False, **query: str
    ) -> tuple[T, ...]:
        """Return all objects of a resource, none where the server lacks the kind.

        With `may_lack` also none without the right to them: no master of the release has one.
        """
        try:
            return await read_all(self, resource, namespace, query=query)
        except KubeError as error:
            if error.is_missing or (may_lack and error.is_denied):
                return ()
            raise


async def write_all(cluster: CleanedCluster, writes: Iterable[Write]) -> None:
    """Send the writes, a few at a time; the first failure ends it."""
    room = asyncio.Semaphore(TOGETHER)

    async def one(write: Write) -> None:
        async with room:
            await cluster.write(write)

    tasks = [asyncio.ensure_future(one(write)) for write in writes]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
