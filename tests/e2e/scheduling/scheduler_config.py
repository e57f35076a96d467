"""What the doctor says of Volcano's scheduler, and the file that the scheduler reads.

A kubelet's part, to bring the ConfigMap to the scheduler's file, is done by tests.
"""

import asyncio
import os
import sys
from pathlib import Path


def configure(path: Path, text: str) -> None:
    """As a kubelet does it: of half a file the scheduler would end."""
    written = path.with_suffix(".new")
    written.write_text(text)
    written.replace(path)


async def topo(url: str, *words: str) -> str:
    """What `topo` prints of the master there on a terminal of 80 columns."""
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "topo.cli.main", *words),
        env={**os.environ, "TOPO_MASTER": url, "NO_COLOR": "1", "COLUMNS": "80"},
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await command.communicate()
    return printed.decode()


def commands(printed: str) -> set[str]:
    """The commands that the doctor gives, each on a line."""
    return {line for line in printed.splitlines() if line.startswith("kubectl ")}
