"""Identifier types, and the natural order of names."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NewType

NodeName = NewType("NodeName", str)
"""A Kubernetes node name, or the host name outside Kubernetes."""
GroupName = NewType("GroupName", str)
"""A group's own name; unique only under its parent, see `GroupPath`."""
GroupPath = NewType("GroupPath", tuple[GroupName, ...])
"""Names from a root down to a group: the group's identity. Equal names under two parents differ."""
Kind = NewType("Kind", str)
"""What a group is: `dragonfly`, `switchbox`, `nvlink-domain`, …; a leaf is `node`."""
FabricName = NewType("FabricName", str)
"""An interconnect with groups of its own: `scale-up`, `scale-out`."""
ServerUuid = NewType("ServerUuid", str)
"""A server's identity on the inter-node interconnect, lower case."""
GpuUuid = NewType("GpuUuid", str)
BootId = NewType("BootId", str)
Bdf = NewType("Bdf", str)
"""A PCI address in the form of sysfs: `0000:3b:00.0`, lower case, four digits of domain."""
SourceName = NewType("SourceName", str)
"""One that states facts: `config-file`, `cluster-manager`, `workers`, `cluster-nodes`."""
Generation = NewType("Generation", int)
"""Number of a published forest; grows by one when the content changes, never otherwise."""

NODE = Kind("node")
DRAGONFLY = Kind("dragonfly")
SWITCHBOX = Kind("switchbox")
NVLINK_DOMAIN = Kind("nvlink-domain")
NVLINK_CLIQUE = Kind("nvlink-clique")
SUPER_POD = Kind("superpod")
RACK = Kind("rack")
KNOWN_KINDS = (
    NODE,
    DRAGONFLY,
    SWITCHBOX,
    NVLINK_DOMAIN,
    NVLINK_CLIQUE,
    SUPER_POD,
    Kind("leaf"),
)
"""Who writes nearly one of these most likely means it; others are words of their own."""

SCALE_UP = FabricName("scale-up")
"""The wires between GPUs of several nodes: dragonflies, NVLink domains, super pods."""
SCALE_OUT = FabricName("scale-out")
"""The switches between adapters: leaves and spines of InfiniBand or Ethernet."""
FABRICS = (SCALE_UP, SCALE_OUT)
FABRIC_OF_KIND: Mapping[Kind, FabricName] = {
    DRAGONFLY: SCALE_UP,
    SWITCHBOX: SCALE_UP,
    NVLINK_DOMAIN: SCALE_UP,
    NVLINK_CLIQUE: SCALE_UP,
    SUPER_POD: SCALE_UP,
    Kind("leaf"): SCALE_OUT,
}
"""Of which fabric a group is by its kind; other kinds are words of people, and say nothing."""

_DIGITS = re.compile(r"(\d+)", re.ASCII)


@lru_cache(maxsize=1 << 17)
def natural_key(name: str) -> tuple[tuple[str | int, ...], str]:
    """Return a sort key under which `node-2` precedes `node-10`.

    Text and numbers alternate, so two keys never compare a number with text; the name itself
    breaks ties such as `n1` and `n01`, which keeps the order total. Remembered, because every build
    of the forest sorts the same names again.
    """
    parts: list[str | int] = list(_DIGITS.split(name))
    parts[1::2] = map(int, parts[1::2])
    return tuple(parts), name
