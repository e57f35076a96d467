"""A network between a client and a server that a test can cut, slow down or leave half open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

_PART_BYTES = 1 << 16


@dataclass
class Relay:
    """Takes connections on `port` of the loopback address and leads them to `target`."""

    target: int
    port: int = 0
    passes: bool = True
    """Whether new connections are led on; else they end at once."""
    delay_s: float = 0.0
    """How late each part arrives, in both directions."""
    _asks: asyncio.Event = field(default_factory=asyncio.Event)
    _answers: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether what the client sends arrives, and what the server sends."""
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.heal()

    def heal(self) -> None:
        """All passes again; what was kept back arrives now, as after a lost packet."""
        self.passes, self.delay_s = True, 0.0
        self._asks.set()
        self._answers.set()

    def hang(self, *, asks: bool = True) -> None:
        """Connections stay and nothing arrives; without `asks` answers alone are kept back."""
        self._answers.clear()
        if asks:
            self._asks.clear()

    def cut(self) -> None:
        """Ends all connections as a cable that is pulled and put back."""
        for writer in self._writers:
            writer.transport.abort()

    def block(self) -> None:
        """Nothing passes until `passes` is set again."""
        self.passes = False
        self.cut()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        if not self.passes:
            writer.transport.abort()
            return
        try:
            there = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, there[1]}
        self._writers |= ends
        try:
            tasks = [
                asyncio.create_task(self._lead(reader, there[1], self._asks)),
                asyncio.create_task(self._lead(there[0], writer, self._answers)),
            ]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _lead(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while part := await reader.read(_PART_BYTES):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await passes.wait()
                writer.write(part)
                await writer.drain()


@asynccontextmanager
async def relay_to(target: int) -> AsyncIterator[Relay]:
    """A relay that is up."""
    relay = Relay(target)
    server = await asyncio.start_server(relay.handle, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        relay.block()
        await server.wait_closed()
