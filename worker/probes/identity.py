"""Who this host is: the names under which others may know it."""

import socket
from pathlib import Path

from topo.model.ids import BootId, NodeName
from topo.model.machine import NodeIdentity

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PRODUCT_UUID = "class/dmi/id/product_uuid"


def identify(node_name: str, *, node_ip: str, provider_id: str, sysfs_root: Path) -> NodeIdentity:
    """The identity: what Kubernetes or the administrator states (empty: nothing), then the kernel.

    The node name falls back to the host name. The board's UUID is readable by root only; without
    it the field is empty. Never raises: a name that cannot be had is empty.
    """
    hostname = socket.gethostname()
    return NodeIdentity(
        name=NodeName(node_name or hostname),
        boot_id=BootId(_line(_BOOT_ID)[:64]),
        hostname=hostname[:253],
        internal_ip=node_ip,
        provider_id=provider_id,
        system_uuid=_line(sysfs_root / _PRODUCT_UUID).lower()[:64],
    )


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
