"""SIGTERM and SIGINT while a service starts: they end it, whatever it waits for.

By default SIGINT prints a traceback, and SIGTERM does not end the first process of a container,
which is killed half a minute later. Imports the standard library alone, to run before the imports
that take most of a start.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def exit_on_signal() -> Iterator[None]:
    """Exit with 0 and without a message if a signal comes inside the block.

    Does not wait for threads or exit handlers. Does nothing outside of the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.signal(number, _end) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)
