"""The life of a service: background tasks, several HTTP ports, signals, exit code.

Follows what aiohttp 3.14 was measured to do: a `TaskGroup` inside a `cleanup_ctx` is entered and
left by the one task that runs the service, so a child that dies cancels that task at once instead
of leaving a process that answers "ok" with nobody at work behind it.
"""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, TypeVar

import structlog
import uvloop
from aiohttp import web

from topo.kit.process.signals import ENDING
from topo.kit.serving.connections import Connections
from topo.kit.serving.malformed import MalformedRequests
from topo.kit.serving.runner import app_runner, handler_options
from topo.kit.serving.tls_port import TlsPort
from topo.model.errors import BadInputError, BrokenInvariantError, Refusal, TakenError

T = TypeVar("T")
Work = Callable[[], Awaitable[None]]
"""Runs until it is cancelled; to return is as wrong as to raise."""
BACKLOG = 4096
"""Connections that the kernel keeps until they are accepted: all workers come at once."""
UNSENT_BYTES = 128 * 1024
"""What the kernel takes of an answer ahead of its reader: of one that does not read, else 2.5 MB.
Source: tcp(7), TCP_NOTSENT_LOWAT."""
UNTAKEN_BYTES = 16 * 1024
"""What the kernel is asked to keep of what a TLS peer sends ahead of us; it keeps twice that, else
up to 6 MB. It bounds what TLS is given in one go, which uvloop keeps as long as the connection.
Source: socket(7), SO_RCVBUF; tcp(7), tcp_rmem."""

_MESSAGE_CHARS = 300
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One application on one port.

    `port=0` takes a free one, which the log names. `drain_s` bounds the wait for requests under way
    at the end; aiohttp may wait it twice (once for them to end, once after it cancelled them).
    `on_malformed` is called for each request that is no HTTP.
    `connections` are those of this site alone, with their limits.
    """

    app: web.Application
    port: int
    connections: Connections
    host: str | None = None
    name: str = "api"
    tls: SSLContext | None = None
    drain_s: float = 4.0
    on_malformed: Callable[[], object] = lambda: None


def background(
    works: Callable[[web.Application], Mapping[str, Work]],
) -> Callable[[web.Application], AsyncIterator[None]]:
    """A `cleanup_ctx` that runs the named works while the app lives; list it last.

    `works` is called at start, so that it finds what earlier contexts put into the app.
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


async def uninterrupted(work: Awaitable[T]) -> T:
    """What the work returns; who is cancelled meanwhile, however often, first waits for its end.

    For what must not be overtaken by what the same caller, or whoever comes after it, does next.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    finally:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})


async def serve(*sites: Site, started: Callable[[], None] | None = None) -> int:
    """Serves the sites until SIGTERM or SIGINT; the exit code of the process.

    0 after a signal, 1 when a background task died or another process has what is needed (a port),
    2 when a site found something at its start that it cannot use. Sites start in the order given
    and stop in reverse, so the one that owns the background work comes first. A signal that comes
    while they start interrupts that; a second one ends the process here and now, with 128 and its
    number.
    """
    stop = _Stop(asyncio.current_task())
    try:
        with on_signals(stop.end, *ENDING):
            async with AsyncExitStack() as stack:
                for site in sites:
                    await start(site, stack)
                if started is not None:
                    started()
                await stop.asked()
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
    """The wish to end, which interrupts the start of the task that serves."""

    def __init__(self, task: asyncio.Task[object] | None) -> None:
        self.is_asked = False
        self._task = task
        self._asked = asyncio.Event()

    def end(self, number: signal.Signals) -> None:
        """Makes the service end, or the process where that was asked before."""
        if self.is_asked:
            _log.critical("ended without waiting any longer", signal=number.name)
            os._exit(128 + number)
        _log.info("stopping", signal=number.name)
        self.is_asked = True
        self._asked.set()
        if self._task is not None:
            self._task.cancel()

    async def asked(self) -> None:
        """Returns when a signal has come. From here on the task is not interrupted any more."""
        self._task = None
        await self._asked.wait()


@contextmanager
def on_signals(
    call: Callable[[signal.Signals], object], *numbers: signal.Signals
) -> Iterator[None]:
    """Calls back on the running loop when one of the signals comes, inside the block."""
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
    """Runs a service's coroutine on uvloop; what it returns, for services the exit code."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(service)


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = uvloop.new_event_loop()
    loop.set_exception_handler(_tell_of_loop)
    return loop


def _tell_of_loop(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs what no coroutine was there to be told of: a broken connection in one line.

    Who used it is told by its own error. uvloop says so when a peer or a pause of this process ends
    a TLS connection inside a write. Everything else is a mistake of ours, and comes with its trace.
    """
    error = context.get("exception")
    if "transport" not in context or error is None:
        loop.default_exception_handler(context)
        return
    what = f"{type(error).__name__}: {error}"[:_MESSAGE_CHARS]
    _log.warning("a connection broke", at=context.get("message", ""), what=what)


async def start(site: Site, stack: AsyncExitStack) -> tuple[tuple[str, int], ...]:
    """Serves one site until the stack is closed; the addresses and ports that it listens on.

    Raises `TakenError` when the port cannot be had.
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
    tls_port = TlsPort(connections, factory, site.tls) if site.tls else None
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


def _messages(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _messages(inner)
    else:
        yield f"{type(error).__name__}: {error}"
