"""Whether a process that a test knows by its number still runs."""

from pathlib import Path

from tests.support.waiting import eventually


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
