"""A simulated peer over HTTPS on a free port of this machine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from topo.kit.tls import server_context
from topo.sim.certificates import Authority

LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def serving(app: web.Application, authority: Authority, name: str) -> AsyncIterator[str]:
    """Serve an application with a certificate of this name; yield its URL."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        tls = server_context(*authority.leaf(name, LOOPBACK))
        await web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls).start()
        yield f"https://{LOOPBACK}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
