"""An event loop whose clock jumps: waiting costs nothing, and happens in an exact order.

`@pytest.mark.virtual_time` runs an asynchronous test on it. The clock, `loop.time()`, stands still
while anything can run. When nothing can, it jumps to the next timer. So ten minutes of polling take
as long as the work in them, and "within a second" and "not before" are exact on any machine.

Give the code under test `asyncio.get_running_loop().time` as its clock, else it compares the times
of two clocks.

Sockets between the tasks of one loop are real and work: before it jumps, the loop makes sure that
no byte is under way. Work in threads (`asyncio.to_thread`) takes no virtual time: the clock stands
still until it is done. What no loop can see, another process or another thread's loop, is not for
virtual time: wait for it with `tests.support.waiting`.

Source of the idea: trio's `MockClock(autojump_threshold)`.
"""

import asyncio
import fcntl
import selectors
import socket
import struct
import termios
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

from tests.support.waiting import CEILING_S

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_STEP_S = 0.001
"""Between two looks, in real time, at bytes under way or at a thread at work."""
_UNREAD_S = 1.0
"""Bytes that a socket holds for so long, in real time, wait for a reader that does not read."""


class _JumpingSelector(selectors.EpollSelector):
    """Real events first; with none, and nothing under way, the clock jumps to the timeout."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.threads_at_work = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready, at once if anything is; else nothing, after a jump of `timeout`."""
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        if timeout is None:
            return super().select(None)
        began_s = time.monotonic()
        while self._is_busy(time.monotonic() - began_s):
            found = super().select(_STEP_S)
            if found:
                return found
        self.now_s += timeout
        return []

    def _is_busy(self, for_s: float) -> bool:
        """Whether something is under way that no file descriptor shows yet."""
        if self.threads_at_work:
            assert for_s < CEILING_S, "a thread waits for virtual time, which waits for the thread"
            return True
        return for_s < _UNREAD_S and self._under_way()

    def _under_way(self) -> bool:
        """Whether a socket of this loop has sent bytes that its peer has not confirmed."""
        waiting = [_unconfirmed(key.fd) for key in self.get_map().values()]
        return any(waiting)  # of all of them, for each is told to confirm


def _unconfirmed(fd: int) -> int:
    """Bytes that were sent and are not confirmed; 0 for what is no TCP connection.

    A kernel delays confirmations. Each socket is told to confirm at once what it has received, so
    that the answer for its peer is true. Source: tcp(7), SIOCOUTQ and TCP_QUICKACK.
    """
    try:
        borrowed = socket.socket(fileno=fd)
    except OSError:
        return 0
    try:
        if borrowed.family not in {socket.AF_INET, socket.AF_INET6}:
            return 0
        borrowed.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        waiting = fcntl.ioctl(fd, termios.TIOCOUTQ, b"\0" * 4)
    except OSError:
        return 0  # it listens, or it is being closed
    finally:
        borrowed.detach()
    return int(struct.unpack("i", waiting)[0])


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop that starts at 0 s and never waits for a timer in real time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumping.now_s

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As every loop does it; the clock stands still until the thread is done."""
        self._jumping.threads_at_work += 1
        try:
            future = super().run_in_executor(executor, func, *args)
        except BaseException:
            self._jumping.threads_at_work -= 1
            raise
        future.add_done_callback(self._one_less)
        return future

    def _one_less(self, _: "asyncio.Future[Any]") -> None:
        self._jumping.threads_at_work -= 1


def in_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    """Runs the work to its end on a loop of its own, for tests that run many of them."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work)
