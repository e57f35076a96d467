"""A simulated UFM: its list of links over HTTPS, for who has its account or a token.

Paths and authentication are those of NVIDIA's UFM Enterprise REST API Guide 6.20: `/ufmRest/…` with
basic authentication, `/ufmRestV3/…` with a token that stands where its user and password would
(`Authorization: Basic TOKEN`); 401 for anybody else. The text of the links is the caller's.
`interrupt` is called before each answer, so a test can have another one sent.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from topo.sim.certificates import Authority
from topo.sim.tls_server import serving

LINKS = "/resources/links"


@dataclass(slots=True)
class SimulatedUfm:
    """What it answers, to whom, and where it is reached; `asked` counts the answers."""

    links: str
    username: str
    password: str
    token: str
    url: str = ""
    ca_file: Path = Path()
    asked: int = 0
    interrupt: Callable[[], web.Response | None] = lambda: None

    async def answer(self, request: web.Request) -> web.Response:
        """Return all links."""
        account = aiohttp.encode_basic_auth(self.username, self.password, "utf-8")
        wanted = f"Basic {self.token}" if request.path.startswith("/ufmRestV3/") else account
        if request.headers.get("Authorization") != wanted:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="UFM"'})
        self.asked += 1
        instead = self.interrupt()
        return instead or web.Response(text=self.links, content_type="application/json")


@asynccontextmanager
async def ufm(
    directory: Path, links: str, *, username: str, password: str, token: str
) -> AsyncIterator[SimulatedUfm]:
    """Serve these links on a free port, with a certificate of an authority in the directory."""
    authority = Authority.at(directory)
    made = SimulatedUfm(links, username, password, token, ca_file=authority.certificate_file)
    app = web.Application()
    for root in ("/ufmRest", "/ufmRestV3"):
        app.router.add_get(root + LINKS, made.answer)
    async with serving(app, authority, "ufm") as made.url:
        yield made
