"""Life cycle of a service: background tasks, HTTP ports, signals, exit code.

The background tasks run in a `TaskGroup` inside a `cleanup_ctx`. aiohttp 3.14 enters and leaves it
in the task that runs the service, so a background task that fails cancels that task at once. So a
process never answers "ok" while its work has stopped.
"""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, TypeVar

import structlog
import uvloop
from aiohttp import web

from topo.kit.process.signals import ENDING
from topo.kit.serving.connections import Connections, app_runner, handler_options
from topo.kit.serving.malformed import MalformedRequests
from topo.kit.serving.tls_port import TlsPort
from topo.model.errors import BadInputError, BrokenInvariantError, Refusal, TakenError

T = TypeVar("T")
Work = Callable[[], Awaitable[None]]
"""Runs until it is cancelled; returning is a failure, as raising is."""
BACKLOG = 4096
"""Connections that the kernel queues before they are accepted: all workers connect at once."""
UNSENT_BYTES = 128 * 1024
"""Bytes of an answer that the kernel buffers for a slow reader; 2.5 MB without this limit.
Source: tcp(7), TCP_NOTSENT_LOWAT."""
UNTAKEN_BYTES = 16 * 1024
"""Receive buffer of a TLS connection; the kernel doubles it, and takes up to 6 MB without. It
bounds what TLS gets in one call, which uvloop keeps for the life of the connection.
Source: socket(7), SO_RCVBUF; tcp(7), tcp_rmem."""

_MESSAGE_CHARS = 300
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One application on one port.

    `port=0` takes a free one, which the log names. `drain_s` bounds the wait for running requests
    at the end; aiohttp may wait it twice, once for them to end and once after cancelling them.
    `on_malformed` is called for each request that is not HTTP. `connections` belong to this site
    alone. `tls` is the context of all connections, or returns that of the next one.
    """

    app: web.Application
    port: int
    connections: Connections
    host: str | None = None
    name: str = "api"
    tls: SSLContext | Callable[[], SSLContext] | None = None
    drain_s: float = 4.0
    on_malformed: Callable[[], object] = lambda: None


def background(
    works: Callable[[web.Application], Mapping[str, Work]],
) -> Callable[[web.Application], AsyncIterator[None]]:
    """Return a `cleanup_ctx` that runs the named coroutines while the app lives; append it last.

    `works` is called at the start, after the earlier contexts have filled the app.
    """

    async def context(app: web.Application) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_until_cancelled(name, work), name=name)
                for name, work in works(app).items()
            ]
            yield
            for task in tasks:
                task.cancel()

    return context


async def _until_cancelled(name: str, work: Work) -> None:
    try:
        await work()
    except Exception as error:
        _log.critical("background task died", task=name, reason=str(error), exc_info=True)
        raise
    _log.critical("background task died", task=name, reason="it returned")
    raise BrokenInvariantError(f"background task {name} returned")


async def serve(*sites: Site, started: Callable[[], None] | None = None) -> int:
    """Serve the sites until SIGTERM or SIGINT. Return the exit code of the process.

    0 after a signal; 1 if a background task failed or a port or file is taken by another process;
    2 if a site cannot use what it found at its start. Sites start in the given order and stop in
    reverse, so the site with the background work comes first. A signal interrupts the start. A
    second signal exits at once with 128 plus its number.
    """
    stop = _Stop(asyncio.current_task())
    try:
        with on_signals(stop.end, *ENDING):
            async with AsyncExitStack() as stack:
                for site in sites:
                    await start(site, stack)
                if started is not None:
                    started()
                await stop.wait()
    except asyncio.CancelledError:
        if not stop.is_asked:
            raise
    except BadInputError as error:
        refusal = error.refusal
        _log.critical("cannot start", what=refusal.what, where=refusal.where, fix=refusal.fix)
        return 1 if isinstance(error, TakenError) else 2
    except Exception as error:  # noqa: BLE001 - whatever it is, it ends the process and is said
        _log.critical("stopped by a failure", failures=list(_messages(error)))
        return 1
    _log.info("stopped")
    return 0


class _Stop:
    """The request to stop; while the service starts, it interrupts the serving task."""

    def __init__(self, task: asyncio.Task[object] | None) -> None:
        self.is_asked = False
        self._task = task
        self._asked = asyncio.Event()

    def end(self, number: signal.Signals) -> None:
        """Stop the service; at the second call, exit the process."""
        if self.is_asked:
            _log.critical("ended without waiting any longer", signal=number.name)
            os._exit(128 + number)
        _log.info("stopping", signal=number.name)
        self.is_asked = True
        self._asked.set()
        if self._task is not None:
            self._task.cancel()

    async def wait(self) -> None:
        """Wait for a signal. From here on the task is not interrupted."""
        self._task = None
        await self._asked.wait()


@contextmanager
def on_signals(
    call: Callable[[signal.Signals], object], *numbers: signal.Signals
) -> Iterator[None]:
    """Call back on the running loop for each of these signals, inside the block."""
    loop = asyncio.get_running_loop()
    former = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        loop.add_signal_handler(number, call, number)
    try:
        yield
    finally:
        for number, handler in former.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def run(service: Coroutine[None, None, T]) -> T:
    """Run a coroutine on uvloop and return its result; for services, the exit code."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(service)


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = uvloop.new_event_loop()
    loop.set_exception_handler(_log_loop_error)
    return loop


def _log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that reached no coroutine: a broken connection in one line, others in full.

    uvloop reports this when a TLS connection ends inside a write; the coroutine that used the
    connection gets its own error. Any other error is a defect of this product.
    """
    error = context.get("exception")
    if "transport" not in context or error is None:
        loop.default_exception_handler(context)
        return
    what = f"{type(error).__name__}: {error}"[:_MESSAGE_CHARS]
    _log.warning("a connection broke", at=context.get("message", ""), what=what)


async def start(site: Site, stack: AsyncExitStack) -> tuple[tuple[str, int], ...]:
    """Serve one site until the stack is closed. Return the addresses and ports it listens on.

    Raises `TakenError` if the port is not available.
    """
    connections = site.connections
    site.app.middlewares.insert(0, connections.serve)
    malformed = MalformedRequests(site.name, site.on_malformed)
    stack.callback(malformed.close)
    runner = app_runner(site.app, drain_s=site.drain_s)
    stack.push_async_callback(runner.cleanup)
    await runner.setup()
    if runner.server is None:
        raise AssertionError("a runner that is set up has a server")
    factory = connections.factory(runner.server, **handler_options(malformed))
    tls_port = None if site.tls is None else TlsPort(connections, factory, _next_context(site.tls))
    try:
        server = await asyncio.get_running_loop().create_server(
            factory, site.host, site.port, backlog=BACKLOG, start_serving=tls_port is None
        )
    except OSError as error:
        what = f"port {site.port} cannot be had: {error.strerror or error}"
        fix = "stop what holds it, or choose another port"
        raise TakenError(Refusal(what, f"{site.name} port", fix)) from error
    stack.callback(server.close)
    if tls_port is not None:
        stack.callback(tls_port.close)
        for bound in server.sockets:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNTAKEN_BYTES)
            tls_port.listen(bound, BACKLOG)
    for listener in server.sockets:  # what it accepts has the same option
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
    addresses = tuple(listener.getsockname()[:2] for listener in server.sockets)
    for host, port in addresses:
        _log.info("listening", site=site.name, host=host, port=port, tls=bool(site.tls))
    return addresses


def _next_context(tls: SSLContext | Callable[[], SSLContext]) -> Callable[[], SSLContext]:
    """Return what returns the context of the next connection."""
    return tls if callable(tls) else lambda: tls


def _messages(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _messages(inner)
    else:
        yield f"{type(error).__name__}: {error}"
