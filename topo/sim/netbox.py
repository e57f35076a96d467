"""A simulated NetBox: its list of cables over HTTPS, by pages, for who has the token.

What it answers is NetBox 4.4's: `count`, `next` and `previous` with whole URLs, cables with
`a_terminations` and `b_terminations`, at most `max_page` of a page whatever limit is asked for,
403 with a `detail` without the right token. Which cables there are is our own. `interrupt` is
called with each offset before its page is made, so a test changes the list between two pages.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from topo.kit.tls import server_context
from topo.sim.certificates import Authority

PATH = "/api/dcim/cables/"
LOOPBACK = "127.0.0.1"


class NetBoxCable(NamedTuple):
    """A cable between two interfaces: its id, and device and interface at both ends."""

    number: int
    one: tuple[str, str]
    other: tuple[str, str]
    status: str = "connected"


@dataclass(slots=True)
class SimulatedNetBox:
    """What it holds and how it is reached. `asked` has the queries that it answered."""

    cables: list[NetBoxCable]
    token: str
    max_page: int = 1000
    url: str = ""
    ca_file: Path = Path()
    asked: list[dict[str, str]] = field(default_factory=list)
    interrupt: Callable[[int], web.Response | None] = lambda _: None

    async def answer(self, request: web.Request) -> web.Response:
        """Return one page of the cables, in the order of their ids."""
        scheme = "Bearer" if self.token.startswith("nbt_") else "Token"
        if request.headers.get("Authorization") != f"{scheme} {self.token}":
            return web.json_response({"detail": "Invalid token"}, status=403)
        query = dict(request.query)
        self.asked.append(query)
        limit = min(int(query.get("limit") or 50), self.max_page)
        offset = int(query.get("offset") or 0)
        if (instead := self.interrupt(offset)) is not None:
            return instead
        there = sorted(self.cables)
        return web.json_response(
            {
                "count": len(there),
                "next": self._link(limit, offset + limit, len(there)),
                "previous": self._link(limit, max(0, offset - limit), offset),
                "results": [self._document(each) for each in there[offset : offset + limit]],
            }
        )

    def _link(self, limit: int, offset: int, below: int) -> str | None:
        return f"{self.url}{PATH}?limit={limit}&offset={offset}" if offset < below else None

    def _document(self, cable: NetBoxCable) -> dict[str, Any]:
        return {
            "id": cable.number,
            "url": f"{self.url}{PATH}{cable.number}/",
            "display": f"#{cable.number}",
            "type": "dac-passive",
            "a_terminations": [_termination(*cable.one)],
            "b_terminations": [_termination(*cable.other)],
            "status": {"value": cable.status, "label": cable.status.title()},
            "label": "",
        }


@asynccontextmanager
async def netbox(
    directory: Path, cables: Sequence[NetBoxCable], token: str
) -> AsyncIterator[SimulatedNetBox]:
    """Serve these cables on a free port, with a certificate of an authority in the directory."""
    authority = Authority.at(directory)
    made = SimulatedNetBox(list(cables), token, ca_file=authority.certificate_file)
    app = web.Application()
    app.router.add_get(PATH, made.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        tls = server_context(*authority.leaf("netbox", LOOPBACK))
        await web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls).start()
        made.url = f"https://{LOOPBACK}:{runner.addresses[0][1]}"
        yield made
    finally:
        await runner.cleanup()


def _termination(device: str, interface: str) -> dict[str, Any]:
    found = {"name": interface, "display": interface, "device": {"name": device, "display": device}}
    return {"object_type": "dcim.interface", "object_id": 1, "object": found}
