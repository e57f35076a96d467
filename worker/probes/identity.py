"""Who this host is: the names under which others may know it."""

import socket
from pathlib import Path

from topo.kit.files import read_bounded
from topo.kit.process.boot import boot_id
from topo.model.ids import BootId, NodeName
from topo.model.machine import NodeIdentity

_PRODUCT_UUID = "class/dmi/id/product_uuid"
_MAX_UUID_BYTES = 64


def identify(node_name: str, *, node_ip: str, sysfs_root: Path) -> NodeIdentity:
    """The identity: what Kubernetes or the administrator states (empty: nothing), then the kernel.

    The node name falls back to the host name. The board's UUID is readable by root only; without
    it the field is empty. Never raises: a name that cannot be had is empty.
    """
    hostname = socket.gethostname()
    return NodeIdentity(
        name=NodeName(node_name or hostname),
        boot_id=BootId(boot_id()),
        hostname=hostname[:253],
        internal_ip=node_ip,
        system_uuid=_board_uuid(sysfs_root),
    )


def _board_uuid(sysfs_root: Path) -> str:
    content = read_bounded(sysfs_root / _PRODUCT_UUID, _MAX_UUID_BYTES)
    return content.decode(errors="replace").strip().lower() if isinstance(content, bytes) else ""
