"""Calls beside the loop: those that may never return, and those whose cost is counted.

Python runs one thread at a time. A loop that gives way for a moment, as with every read and write
of TLS, gets its turn back when the other thread's time is up: 5 ms, where Python sets it. Of a
tree's 10,000 nodes worked out in a thread, twenty writes then take 100 ms; `favour_the_loop`.

The first are in daemon threads, which have a second to end when the process does: native libraries
take themselves down then, and a thread that reads a certificate with OpenSSL meanwhile would end
the process with signal 11. One that hangs keeps no process from ending.

`asyncio.to_thread` is for work that surely ends: the threads of a loop's own executor are waited
for when the loop is closed, and when the interpreter ends.
"""

import asyncio
import atexit
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class DaemonThreads(Executor):
    """An executor with a thread for each call, for which a process waits a moment at its end."""

    def __init__(self) -> None:
        self._alive: set[threading.Thread] = set()

    def let_end(self, within_s: float) -> None:
        """Returns when all calls are over, at the latest after so long."""
        until_s = time.monotonic() + within_s
        for thread in tuple(self._alive):
            thread.join(max(0.0, until_s - time.monotonic()))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begins the call; its future cannot be cancelled any more."""
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
atexit.register(DAEMON_THREADS.let_end, END_S)
TURN_S = 0.0005


def favour_the_loop() -> None:
    """From here on a thread that computes gives way to one that waits after half a millisecond."""
    sys.setswitchinterval(TURN_S)


async def off_loop(call: Callable[[], T]) -> T:
    """The result of a call that may hang; who is cancelled meanwhile leaves it to its thread."""
    return await asyncio.get_running_loop().run_in_executor(DAEMON_THREADS, call)


async def timed_in_thread(call: Callable[[], T]) -> tuple[T, float]:
    """The result of a call that surely ends, and the seconds of a core that it took."""

    def timed() -> tuple[T, float]:
        began_s = time.thread_time()
        return call(), time.thread_time() - began_s

    return await asyncio.to_thread(timed)
