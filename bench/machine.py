"""The machine: what figures depend on beside the code, and what a process takes of it (Linux)."""

import os
import platform
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.scale import SEED

ROOT = Path(__file__).parent.parent
LIBRARIES = ("aiohttp", "numpy", "orjson", "prometheus-client", "pydantic", "uvloop")
MIB = 1 << 20
_NOT_RESULTS = ":!bench/results.json"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def environment() -> dict[str, Any]:
    """What a reader must know to compare these figures with others."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--", ".", _NOT_RESULTS)),
        "seed": SEED,
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB,
        "load_average_before": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def cpu_model() -> str:
    """The processor's name as the kernel gives it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _git(*arguments: str) -> str | None:
    """What git prints; None outside a checkout or without git."""
    try:
        done = subprocess.run(
            ("git", "-C", str(ROOT), *arguments),  # noqa: S607 - git of the path, as people run it
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and its descendants hold and have used; `at_s` is monotonic seconds."""

    at_s: float
    cpu_s: float
    rss_mib: float
    peak_mib: float

    def cores_since(self, before: "Usage") -> float:
        """Cores kept busy on average since an earlier reading."""
        return (self.cpu_s - before.cpu_s) / (self.at_s - before.at_s)


def usage(pid: int) -> Usage:
    """The usage of a process with its descendants; raises `OSError` when it is gone.

    Source: proc_pid_stat(5) fields utime and stime, proc_pid_status(5) VmRSS and VmHWM. Pages that
    processes share are counted for each.
    """
    pids = [pid, *_descendants(pid)]
    return Usage(
        time.monotonic(),
        sum(_cpu_s(p) for p in pids),
        sum(_status_mib(p, "VmRSS") for p in pids),
        sum(_status_mib(p, "VmHWM") for p in pids),
    )


def _cpu_s(pid: int) -> float:
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS_PER_S


def _status_mib(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text(encoding="utf-8").split()):
            found += [child, *_descendants(child)]
    return found
