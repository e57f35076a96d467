"""The bodies of one port: how many bytes of them are held together, and whose gives way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from topo.kit.serving.body import body_bytes


class Bodies:
    """What is held of bodies, at most `limit_bytes` together.

    Beyond the limit the largest that is still coming gives way, its connection with it: who sends
    little is heard beside who sends much. For ports that anybody reaches. Each body is bounded by
    `client_max_size`, too.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._coming: dict[asyncio.Timeout, int] = {}
        """Bytes of those that have not ended, by what ends them."""
        self._going: dict[asyncio.Timeout, int] = {}
        """The same of those that were told to end, which they do at their next turn."""

    @asynccontextmanager
    async def taken(self, request: web.Request) -> AsyncIterator[bytes]:
        """The body as `body_bytes` gives it, counted until the block ends.

        Raises what `body_bytes` raises, and 503 where it gave way.
        """
        size = 0

        def grew(more_bytes: int) -> None:
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
                    content = await body_bytes(request, grew)
            if self._coming.pop(coming, None) is None:
                raise self._gave_way(request)
            yield content
        finally:
            self.held_bytes -= size
            self._coming.pop(coming, None)
            self._going.pop(coming, None)

    def _gave_way(self, request: web.Request) -> web.HTTPException:
        if request.transport is not None:  # to take leave would hold what it still sends
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
