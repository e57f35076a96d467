"""The id of the boot that a process runs in."""

from functools import cache
from pathlib import Path

from topo.kit.files import read_bounded

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """Return the kernel's random id of this boot; empty if there is none. Source: random(4)."""
    content = read_bounded(_BOOT_ID, 64)
    return content.decode(errors="replace").strip() if isinstance(content, bytes) else ""
