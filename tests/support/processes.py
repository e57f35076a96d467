"""Processes of tests: what ends them, and whether one that is known by its number still runs."""

import signal
from pathlib import Path

from tests.support.waiting import eventually


def end_by_ctrl_c() -> None:
    """Lets SIGINT end the processes that this one starts.

    A shell ignores it for what it runs in the background, and whoever is started there inherits it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and that nobody has waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def gone(pid: int) -> None:
    """Returns when the process is gone; fails where it stays."""
    await eventually(lambda: not alive(pid))
