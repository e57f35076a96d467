"""Threads for calls that may hang, and the share of time that threads take from the event loop.

Calls that may never return run in daemon threads, so a hanging call keeps no process from ending.
At exit the process waits a second for them: native libraries are torn down then, and a thread that
is reading a certificate with OpenSSL would end the process with signal 11.

`asyncio.to_thread` is for work that is sure to end: Python waits for those threads when the loop is
closed and when the interpreter ends.

Python runs one thread at a time. A loop that releases the interpreter, as each read and write of
TLS does, gets it back after the switch interval of 5 ms. While a thread computes a tree of 10,000
nodes, twenty writes take 100 ms; see `shorten_switch_interval`.
"""

import asyncio
import atexit
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Generic, ParamSpec, TypeVar

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")


class DaemonThreads(Executor):
    """An executor with one daemon thread per call. The process waits a second for them at exit."""

    def __init__(self) -> None:
        self._alive: set[threading.Thread] = set()

    def join(self, within_s: float) -> None:
        """Wait until all calls have ended, for `within_s` at most."""
        until_s = time.monotonic() + within_s
        for thread in tuple(self._alive):
            thread.join(max(0.0, until_s - time.monotonic()))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start the call; its future cannot be cancelled."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked
                future.set_exception(error)
            else:
                future.set_result(result)
            finally:
                self._alive.discard(thread)

        thread = threading.Thread(target=work, name="daemon-call", daemon=True)
        self._alive.add(thread)
        thread.start()
        return future


DAEMON_THREADS = DaemonThreads()
END_S = 1.0
atexit.register(DAEMON_THREADS.join, END_S)
TURN_S = 0.0005


def shorten_switch_interval() -> None:
    """Make computing threads release the interpreter after 0.5 ms, for a responsive loop."""
    sys.setswitchinterval(TURN_S)


async def off_loop(call: Callable[[], T]) -> T:
    """Return the result of a call that may hang; when cancelled, the call goes on in its thread."""
    return await asyncio.get_running_loop().run_in_executor(DAEMON_THREADS, call)


async def uninterrupted(work: Awaitable[T]) -> T:
    """Return the result of work that is awaited to its end, even if the caller is cancelled.

    For work that must end before the caller, or its successor, does the next step.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    finally:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})


async def timed_in_thread(call: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a call that is sure to end, and the CPU seconds that it took."""

    def timed() -> tuple[T, float]:
        began_s = time.thread_time()
        return call(), time.thread_time() - began_s

    return await asyncio.to_thread(timed)


class MadeOnce(Generic[S, T]):
    """A value of the latest subject: the first thread that asks makes it, the others wait for it.

    Subjects are frozen and known by identity. Only the last value is kept, so a question about an
    earlier subject makes its value again.
    """

    def __init__(self, make: Callable[[S], T]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._made: tuple[S, T] | None = None

    def of(self, subject: S) -> T:
        """Return the value of a subject; waits while another thread makes one."""
        with self._lock:
            if self._made is None or self._made[0] is not subject:
                self._made = subject, self._make(subject)
            return self._made[1]
