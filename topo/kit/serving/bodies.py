"""A shared memory budget for the request bodies of one port."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from topo.kit.serving.body import body_bytes


class Bodies:
    """The request bodies of a port, at most `limit_bytes` together.

    Beyond the limit the connection of the largest incomplete body is closed, so large bodies do not
    block small ones. For ports that anybody can reach. Each body is also bounded by
    `client_max_size`.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._coming: dict[asyncio.Timeout, int] = {}
        """Bytes of incomplete bodies, by the timeout that ends them."""
        self._going: dict[asyncio.Timeout, int] = {}
        """The same of bodies whose timeout has been set and that end at their next turn."""

    @asynccontextmanager
    async def read(
        self, request: web.Request, limit_bytes: int | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the body from `body_bytes`; it counts toward the budget until the block ends.

        `limit_bytes` is `client_max_size` by default. Raises the errors of `body_bytes`, and 503 if
        the body was evicted.
        """
        size = 0

        def on_bytes(more_bytes: int) -> None:
            nonlocal size
            size += more_bytes
            self.held_bytes += more_bytes
            if coming in self._coming:
                self._coming[coming] = size
            self._make_room()

        coming, content = asyncio.timeout(None), b""
        try:
            self._coming[coming] = 0
            with suppress(TimeoutError):
                async with coming:
                    content = await body_bytes(request, on_bytes, limit_bytes=limit_bytes)
            if self._coming.pop(coming, None) is None:
                raise self._evicted(request)
            yield content
        finally:
            self.held_bytes -= size
            self._coming.pop(coming, None)
            self._going.pop(coming, None)

    def _evicted(self, request: web.Request) -> web.HTTPException:
        if request.transport is not None:  # a graceful close would buffer what it still sends
            request.transport.abort()
        what = f"the bodies here have more than {self.limit_bytes} bytes together"
        return web.HTTPServiceUnavailable(text=what)

    def _make_room(self) -> None:
        over_bytes = self.held_bytes - sum(self._going.values()) - self.limit_bytes
        while over_bytes > 0 and self._coming:
            largest = max(self._coming, key=self._coming.__getitem__)
            self._going[largest] = self._coming.pop(largest)
            over_bytes -= self._going[largest]
            largest.reschedule(asyncio.get_running_loop().time())
