"""The only place from which this master writes to the API server."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from http import HTTPStatus
from math import inf
from typing import TypeVar

import prometheus_client as prom
import structlog

from master.kube.client import Caller, unlimited
from master.kube.decoding import decode
from master.kube.errors import KubeError
from master.kube.objects import BareObject, KubeObject, Metadata
from master.kube.reflector import Changed, Listed, StoreEvent
from master.kube.store import Store
from master.kube.writing.write_queue import GONE, WriteQueue, version_number
from master.kube.writing.writes import MANAGER_PREFIX, Apply, Delete, Write, WriteTarget, call_of
from master.object_errors import ObjectErrors, ObjectKind
from topo.kit.backoff import requested_wait_s
from topo.kit.metrics import counter, gauge
from topo.model.isolation import ObjectError, attempt_async

CONCURRENCY = 64
"""Concurrent writes: enough for 100 a second where one takes 0.6 s, as a busy API server does. The
rate alone limits how often it is called."""
BACKOFF_S = 0.2
BACKOFF_CEILING_S = 30.0
LEADING_POLL_S = 0.5
LEAST_WAIT_S = 0.001
LOG_INTERVAL_S = 60.0
"""Refusals of one kind are logged once in this time; the metric counts them all."""

T = TypeVar("T", bound=KubeObject)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of a write: the object's current `metadata`, or the `error`."""

    write: Write
    metadata: Metadata | None = None
    error: KubeError | None = None


class WriterMetrics:
    """Metrics of the writes of each manager."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self.writes = counter(registry, "topo_master_kube_writes")
        self.waiting = gauge(registry, "topo_master_kube_writes_waiting")


@dataclass(slots=True, eq=False)
class Writer:
    """Sends the requested writes at the allowed rate while this master leads.

    For each object and manager only the latest write counts and one write is in flight at a time;
    managers take turns. A refused write is dropped and reported; a failed one is retried.
    """

    client: Caller
    metrics: WriterMetrics
    _: KW_ONLY
    rate: Callable[[], Awaitable[None]] = unlimited
    may_write: Callable[[], bool] = lambda: True
    """Returns whether this master leads now; called right before each write."""
    clock: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    """Takes the writes that cannot be sent, and those whose end a controller cannot handle."""
    _queue: WriteQueue = field(default_factory=WriteQueue)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _listeners: dict[str, Callable[[Settled], None]] = field(default_factory=dict)
    _told_at_s: dict[tuple[str, str], float] = field(default_factory=dict)
    _room: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, CONCURRENCY))

    def listen(self, manager: str, listener: Callable[[Settled], None]) -> None:
        """Call the listener whenever a write of a manager ends."""
        self._listeners[manager] = listener
        gauge = self.metrics.waiting.labels(manager.removeprefix(MANAGER_PREFIX))
        gauge.set_function(lambda: sum(1 for _ in self._queue.unfinished(manager)))

    def put(self, *writes: Write) -> None:
        """Request writes. A write that is in flight, or done and not seen yet, is not repeated.

        The listener of the manager hears of the end of each other one, also where too many wait.
        """
        for refused in self._queue.put(writes, self.clock()):
            error = KubeError("too many writes wait", status=HTTPStatus.TOO_MANY_REQUESTS)
            ended = partial(self._settled, Settled(refused, error=error), "full")
            asyncio.get_running_loop().call_soon(ended)  # who asks has not noted it yet
        self._woken.set()

    def withdraw(self, target: WriteTarget, manager: str) -> None:
        """Withdraw a write that has not begun."""
        self._queue.withdraw(target, manager)

    def withdraw_all(self, manager: str) -> None:
        """Withdraw all writes of a manager that have not begun."""
        for target in tuple(self._queue.waiting(manager)):
            self._queue.withdraw(target, manager)

    def follow(self, store: Store[T]) -> None:
        """Confirm writes of a resource by its watch."""

        def seen(event: StoreEvent[T]) -> None:
            if isinstance(event, Listed):
                versions = {
                    k: version_number(o.metadata.resource_version) for k, o in event.objects.items()
                }
                self._queue.observe_list(store.resource, versions)
                return
            namespace, name = event.key
            version = (
                version_number(event.object.metadata.resource_version)
                if isinstance(event, Changed)
                else GONE
            )
            self._queue.observe(WriteTarget(store.resource, name, namespace), version)

        store.subscribe(seen)

    def is_busy(self, manager: str) -> bool:
        """Return whether the manager has a write that is waiting, in flight or not seen yet."""
        return self._queue.is_busy(manager, self.clock())

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                while (at_s := self._queue.next_at_s) is None or at_s > self.clock():
                    await self._wait(at_s)
                await self._room.acquire()
                await self._wait_until_allowed()
                write = self._queue.begin(self.clock())
                if write is None:  # it was taken back meanwhile
                    self._room.release()
                    continue
                task = group.create_task(self._write(write))
                task.add_done_callback(lambda _: self._room.release())

    async def _wait(self, until_s: float | None) -> None:
        """Return when a write is requested, or once this time is over.

        A wait of less than `LEAST_WAIT_S` may end before its time by the rounding of the sum.
        """
        self._woken.clear()
        wait_s = None if until_s is None else max(LEAST_WAIT_S, until_s - self.clock())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._woken.wait()

    async def _wait_until_allowed(self) -> None:
        """Return when one more request is allowed and this master leads."""
        await self.rate()
        while not self.may_write():  # noqa: ASYNC110 - a lease ends by the clock, no event tells
            await asyncio.sleep(LEADING_POLL_S)

    async def _write(self, write: Write) -> None:
        """Send a write; an error of this one is reported as a refusal."""
        found = await attempt_async(self._send(write))
        if isinstance(found, ObjectError):
            status = HTTPStatus.UNPROCESSABLE_ENTITY.value
            self._failed(write, KubeError(found.reason, status=status))
            self.errors.note(ObjectKind.WRITE, _title(write), found)

    async def _send(self, write: Write) -> None:
        try:
            body = await self.client.call(call_of(write))
        except KubeError as error:
            await self._not_done(write, error)
        else:
            self._done(write, body, "done")

    async def _not_done(self, write: Write, error: KubeError) -> None:
        if isinstance(write, Delete) and error.is_missing:
            self._done(write, b"", "gone")
        elif isinstance(write, Apply) and error.is_conflict and not write.force:
            await self._take_over(write, error)
        else:
            self._failed(write, error)

    async def _take_over(self, write: Apply, conflict: KubeError) -> None:
        """Repeat a write by force.

        Another manager owns a field, or it is another object: the forced write shows which.
        """
        await self._wait_until_allowed()
        try:
            body = await self.client.call(call_of(replace(write, force=True)))
        except KubeError as error:
            self._failed(write, error)
        else:
            what = "a field that another manager had is taken over"
            self._log_rarely(write, "taken", what, conflict)
            self._done(write, body, "taken")

    def _done(self, write: Write, body: bytes, result: str) -> None:
        """Record a success; the `body` of the answer has the object's metadata."""
        metadata = None
        with suppress(KubeError):  # some deletes answer a status
            metadata = decode(BareObject, body).metadata
        version = "" if metadata is None else metadata.resource_version
        # An object whose deletion waits for a finalizer still exists and has a version.
        if isinstance(write, Delete) and metadata is not None and not metadata.deletion_timestamp:
            version = ""
        if self._queue.done(write, version, self.clock()):
            self._woken.set()
        self._settled(Settled(write, metadata), result)

    def _failed(self, write: Write, error: KubeError) -> None:
        now_s = self.clock()
        if error.is_passing or error.status == 401:
            ceiling_s = min(BACKOFF_CEILING_S, BACKOFF_S * 2 ** min(self._queue.tries(write), 16))
            wait_s = max(self.rng.uniform(0, ceiling_s), requested_wait_s(error))
            self._queue.retry_later(write, now_s + wait_s)
            self._woken.set()
            self._count(write.manager, "again")
            self._log_rarely(
                write, "again", "a write to Kubernetes fails and is tried again", error
            )
            return
        if self._queue.give_up(write, now_s):
            self._woken.set()
        result = _result(error)
        if result != "gone":
            self._log_rarely(write, result, "a write to Kubernetes is refused and given up", error)
        self._settled(Settled(write, error=error), result)

    def _settled(self, settled: Settled, result: str) -> None:
        manager = settled.write.manager
        self._count(manager, result)
        listener = self._listeners.get(manager, _ignored)
        self.errors.run(ObjectKind.WRITE, _title(settled.write), partial(listener, settled))

    def _count(self, manager: str, result: str) -> None:
        self.metrics.writes.labels(manager.removeprefix(MANAGER_PREFIX), result).inc()

    def _log_rarely(self, write: Write, result: str, what: str, error: KubeError) -> None:
        """Log the text, unless one with the same manager and result was logged a moment ago."""
        about, now_s = (write.manager, result), self.clock()
        if now_s - self._told_at_s.get(about, -inf) < LOG_INTERVAL_S:
            return
        self._told_at_s[about] = now_s
        manager, target = write.manager, str(write.target)
        _log.warning(what, manager=manager, object=target, status=error.status, why=error.message)


def _ignored(_settled: Settled) -> None:
    """Handle the end of a write of which no controller is told."""


def _title(write: Write) -> str:
    return f"{write.manager} {write.target}"


def _result(error: KubeError) -> str:
    if error.is_missing:
        return "gone"
    if error.is_conflict:
        return "conflict"
    return "denied" if error.is_denied else "refused"
