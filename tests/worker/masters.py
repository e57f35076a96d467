"""A small master for tests: real sockets, the words of the wire, answers as the test wants."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.support.waiting import CEILING_S
from topo.model.wire import REPORTS_PATH, Report, ReportAnswer

Reply = Callable[[Report], web.Response | None]


@dataclass
class TestMaster:
    """What it heard, and how it answers. `reply` may answer instead of it."""

    __test__ = False

    reports: list[Report] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    beat_s: float = 10.0
    want: str = "change"
    reply: Reply | None = None
    port: int = 0
    _heard: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def hear(self, count: int, within_s: float = CEILING_S) -> list[Report]:
        """The first reports, as soon as there are so many. A shorter time is for virtual time."""
        async with asyncio.timeout(within_s):
            while len(self.reports) < count:
                self._heard.clear()
                await self._heard.wait()
        return self.reports

    async def post(self, request: web.Request) -> web.Response:
        self.tokens.append(request.headers.get("Authorization", ""))
        report = Report.model_validate_json(await request.read())
        self.reports.append(report)
        self._heard.set()
        other = self.reply(report) if self.reply is not None else None
        if other is not None:
            return other
        answer = ReportAnswer.model_validate(
            {"seq": report.seq, "want": self.want, "beat_s": self.beat_s}
        )
        return web.json_response(text=answer.model_dump_json())


@asynccontextmanager
async def listening(
    master: TestMaster, tls: ssl.SSLContext | None = None
) -> AsyncIterator[TestMaster]:
    """The master on a port of its own (the same one again when it had one)."""
    app = web.Application(client_max_size=4 << 20)
    app.router.add_post(REPORTS_PATH, master.post)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", master.port, ssl_context=tls, reuse_address=True)
    await site.start()
    master.port = runner.addresses[0][1]
    try:
        yield master
    finally:
        await runner.cleanup()
