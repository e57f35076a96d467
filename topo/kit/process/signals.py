"""What SIGTERM and SIGINT do while a service begins: they end it, whatever it waits for.

Python's own way is a traceback for SIGINT, and for SIGTERM the kernel's, which never reaches the
first process of a container: it would be asked in vain, and killed half a minute later. Needs the
standard library alone, to stand before the imports, which take most of a start.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Inside, a signal ends the process with 0, without a word: nothing has been begun.

    Threads and exit handlers are not waited for. Does nothing outside of the main thread.
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
