"""What stands between the API server and a master's webhook, and can leave reviews unanswered."""

import asyncio
import math
from contextlib import suppress
from types import TracebackType
from typing import Self

_CHUNK_BYTES = 1 << 16
_REVIEW_BYTES = 512
"""The end of a handshake is shorter, the head of any review longer."""
_HTTPS = 443


class WebhookDoor:
    """Passes TLS on to the master behind, as a kube-proxy does; reviews that `hang` are swallowed.

    The handshake is made in any case, so that it is the review that gets no answer, as from a
    process that stands still.
    """

    def __init__(self, address: str, behind: str) -> None:
        self._address, self._behind = address, behind
        self._to_hang = 0.0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.hung = 0
        """Reviews that came and were not answered."""

    def hang(self, reviews: float = math.inf) -> None:
        """The next so many reviews get no answer; those that came already get none for ever."""
        self._to_hang = reviews

    def heal(self) -> None:
        """Whatever comes from now on is answered."""
        self._to_hang = 0.0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._address, _HTTPS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, what: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        answers: asyncio.Task[None] | None = None
        try:
            answer, master = await asyncio.open_connection(self._behind, _HTTPS)
            try:
                master.write(await reader.read(_CHUNK_BYTES))  # the greeting, which is long, too
                answers = asyncio.create_task(pass_on(answer, writer))
                await self._ask(reader, master)
            finally:
                master.close()
        except (OSError, asyncio.CancelledError):
            pass  # the caller sees a connection that is closed
        finally:
            if answers is not None:
                answers.cancel()
                await asyncio.gather(answers, return_exceptions=True)
            self._open.discard(task)
            writer.close()

    async def _ask(self, reader: asyncio.StreamReader, master: asyncio.StreamWriter) -> None:
        """Passes on what the API server asks, until it hangs up or is left to hang."""
        is_hung = False
        while chunk := await reader.read(_CHUNK_BYTES):
            if not is_hung and self._to_hang > 0 and len(chunk) > _REVIEW_BYTES:
                is_hung = True
                self._to_hang -= 1
                self.hung += 1
            if not is_hung:
                master.write(chunk)
                await master.drain()


async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Write what comes from one end to the other until the source ends; then close the target."""
    with suppress(OSError):
        while chunk := await source.read(_CHUNK_BYTES):
            target.write(chunk)
            await target.drain()
        target.close()
