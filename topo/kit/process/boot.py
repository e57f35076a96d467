"""Which boot of which machine a process runs on."""

from functools import cache
from pathlib import Path

from topo.kit.files import read_bounded

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """The kernel's random id of this boot; empty where it tells none. Source: random(4)."""
    content = read_bounded(_BOOT_ID, 64)
    return content.decode(errors="replace").strip() if isinstance(content, bytes) else ""
