"""Whether a process that a test knows by its number still runs."""

import asyncio
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def gone(pid: int) -> bool:
    """Whether the process is gone within a second."""
    for _ in range(100):
        if not alive(pid):
            return True
        await asyncio.sleep(0.01)
    return False
