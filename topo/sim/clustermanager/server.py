"""The simulated cluster manager: a real HTTPS server with accounts, events and faults on demand.

It serves our contract (docs/cluster-manager.openapi.yaml) with a certificate of its own authority.
Everything it makes lies in one directory and is used again at the next start: `ca.pem` for clients,
`secret/username` and `secret/password` for the master's `--credentials-dir`, `control.token` for
whoever breaks things, and `ready.json` with the addresses once it serves.
"""

import asyncio
import os
import secrets
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
from aiohttp import web

from topo.discovery.manager.contract import checked
from topo.kit.files import write_private
from topo.kit.secrets import read_credential
from topo.kit.tasks import on_signals
from topo.kit.tls import reload_certificate, server_context
from topo.model.errors import BadInputError, Refusal
from topo.model.observation import ManagedTopology
from topo.sim.certificates import Authority
from topo.sim.clustermanager.api import LoginSessions, build_api
from topo.sim.clustermanager.control import READY_FILE, TOKEN_FILE, build_control
from topo.sim.clustermanager.faults import Faults, ManagerFaultKind
from topo.sim.clustermanager.inventory import Inventory

LOOPBACK = "127.0.0.1"
_HOSTS = (LOOPBACK, "localhost")
"""The names in the server's certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorSettings:
    """What to serve and where; ports of 0 are chosen by the system."""

    directory: Path
    topology: ManagedTopology
    port: int = 0
    control_port: int = 0
    token_ttl_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Simulator:
    """Where a running simulator is reached."""

    directory: Path
    url: str
    control_url: str
    ca_file: Path

    @property
    def credentials_dir(self) -> Path:
        """What the master's `--credentials-dir` must name."""
        return self.directory / "secret"

    def document(self) -> dict[str, object]:
        """Return the content of `ready.json`."""
        return {
            "url": self.url,
            "ca_file": str(self.ca_file),
            "credentials_dir": str(self.credentials_dir),
            "control_url": self.control_url,
            "control_token_file": str(self.directory / TOKEN_FILE),
            "pid": os.getpid(),
        }


async def serve(settings: SimulatorSettings) -> None:
    """Serve until SIGTERM, SIGINT or cancellation; prints one JSON line when it is ready.

    Raises `BadInputError` for a topology that is not sound, `OSError` for a port in use.
    """
    stop = asyncio.Event()
    with on_signals(lambda _: stop.set(), signal.SIGTERM, signal.SIGINT):
        async with simulator(settings) as running:
            sys.stdout.buffer.write(orjson.dumps({"ready": True, **running.document()}) + b"\n")
            sys.stdout.flush()
            await stop.wait()


@asynccontextmanager
async def simulator(
    settings: SimulatorSettings, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[Simulator]:
    """A running simulator; `ready.json` exists exactly while it serves."""
    sound = checked(settings.topology)
    if isinstance(sound, Refusal):
        raise BadInputError(sound)
    authority = Authority.at(settings.directory)
    good = authority.leaf("server", *_HOSTS)
    context = server_context(*good)
    api = build_api(
        Inventory(sound),
        LoginSessions(*_account(settings.directory), settings.token_ttl_s, clock),
        Faults(),
    )
    api_runner = _runner(api)

    def present(fault: ManagerFaultKind | None) -> None:
        """Show the certificate of this fault, or the good one, from the next handshake on."""
        reload_certificate(context, *(_bad_leaf(authority, fault) or good))
        # Connections made before still show the old certificate: end them.
        for connection in api_runner.server.connections if api_runner.server else ():
            connection.force_close()

    control = build_control(api, _control_token(settings.directory), present)
    control_runner = _runner(control)
    ready_file = settings.directory / READY_FILE
    try:
        port = await _listen(api_runner, LOOPBACK, settings.port, context)
        control_port = await _listen(control_runner, LOOPBACK, settings.control_port, None)
        running = Simulator(
            settings.directory,
            f"https://{LOOPBACK}:{port}",
            f"http://{LOOPBACK}:{control_port}",
            authority.certificate_file,
        )
        _write_ready(ready_file, running)
        yield running
    finally:
        ready_file.unlink(missing_ok=True)
        await control_runner.cleanup()
        await api_runner.cleanup()


def _bad_leaf(authority: Authority, fault: ManagerFaultKind | None) -> tuple[Path, Path] | None:
    """Certificate and key of a fault of certificates; None for what is none."""
    if fault is ManagerFaultKind.EXPIRED_CERTIFICATE:
        return authority.leaf("expired", *_HOSTS, expired=True)
    if fault is ManagerFaultKind.OTHER_HOST_CERTIFICATE:
        return authority.leaf("other-host", "elsewhere.invalid")
    return None


def _runner(app: web.Application) -> web.AppRunner:
    # A stalled answer must not hold up the end of the process.
    return web.AppRunner(
        app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=0.2
    )


async def _listen(runner: web.AppRunner, host: str, port: int, tls: ssl.SSLContext | None) -> int:
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=tls).start()
    chosen: int = runner.addresses[0][1]
    return chosen


def _account(directory: Path) -> tuple[str, str]:
    """User name and password of the credential files, which are written where absent."""
    folder = directory / "secret"
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in (("username", "metax"), ("password", secrets.token_urlsafe(18))):
        if not (folder / name).exists():
            write_private(folder / name, f"{value}\n".encode())
    return read_credential(folder / "username"), read_credential(folder / "password")


def _control_token(directory: Path) -> str:
    token = secrets.token_urlsafe(24)
    write_private(directory / TOKEN_FILE, f"{token}\n".encode())
    return token


def _write_ready(path: Path, running: Simulator) -> None:
    draft = path.with_suffix(".tmp")
    draft.write_bytes(orjson.dumps(running.document(), option=orjson.OPT_INDENT_2))
    draft.replace(path)
