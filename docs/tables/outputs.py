"""The tables of outputs: which are read, what may be around them, which are only named."""

from types import MappingProxyType

from docs.tables.section import table
from topo.facts.reading import prefixes
from topo.facts.registry import READERS, UNSUPPORTED

_STATES = MappingProxyType(
    {
        "ibnetdiscover": "switches, adapters and cables of an InfiniBand subnet",
        "lldpcli": "switch ports at the ends of network interfaces",
        "mx-exporter": "GPUs and their health, ports and their errors, server UUIDs",
        "mx-smi-list": "GPUs and their health",
        "mx-smi-table": "GPUs, memory and health",
        "mx-smi-topo": "links between GPUs and NICs, NUMA nodes, CPUs",
        "mxsml": "all of these (the helper process of the worker)",
        "nodegroup": "groups that somebody declares",
        "npu-smi-spod-info": "NPUs, their super pod, its size, the server index in it",
        "npu-smi-topo": "links between NPUs, CPUs",
        "nvidia-smi-fabric": "GPUs, memory and health, NVLink domain, rack position",
        "nvidia-smi-topo": "links between GPUs and NICs, NUMA nodes, CPUs",
        "nvidia-smi-xml": "GPUs, memory and health, NVLink domain, rack position",
        "nvlink-errors": "error counters of NVLinks",
        "nvlink-remote": "GPUs, far ends of active NVLinks (`-p`: without their numbers)",
        "nvlink-status": "GPUs, NVLinks and which are up, down or degraded",
        "nvml": "all of these (the helper process of the worker)",
        "super-pod-device": "the nodes of an Ascend super pod",
        "sysfs-infiniband": "InfiniBand and RoCE ports",
        "sysfs-infiniband-counters": "error counters of InfiniBand and RoCE ports",
        "ufm-links": "switches, adapters and cables of the InfiniBand fabrics of a UFM, no speeds",
        "sysfs-pci": "GPUs on the bus, their NUMA nodes, how far RDMA adapters are from them",
    }
)
"""Also of formats that workers do not run, of which `Reader.gives` says nothing."""
_PRINTED_BY = MappingProxyType(
    {
        "mx-exporter": "metrics of mx-exporter",
        "mxsml": "libmxsml.so",
        "nodegroup": "`nodegroup.yaml`",
        "nvml": "libnvidia-ml.so",
        "super-pod-device": "the value `superPodDevice` of a ConfigMap `app=pingmesh`",
        "sysfs-infiniband": "lines `path: content` of `/sys/class/infiniband`",
        "sysfs-infiniband-counters": "such lines of `counters` below its ports",
        "ufm-links": "`GET /ufmRest/resources/links` of NVIDIA UFM",
        "sysfs-pci": "lines `path: content` of `/sys/bus/pci/devices`",
    }
)
"""Of formats that no command prints."""


def read() -> str:
    """Return the formats that are read: what prints them, the name, what they state."""
    rows = (
        (_PRINTED_BY.get(name) or f"`{READERS[name].command}`", f"`{name}`", _STATES[name])
        for name in sorted(READERS)
    )
    return table(("output", "format", "states"), rows)


def around() -> str:
    """Return the kinds of prefixes that come off, each with an example."""
    rows = ((kind.name, f"`{kind.example.strip()}`") for kind in prefixes.KINDS)
    return table(("prefix", "for example"), rows)


def named() -> str:
    """Return the formats that are recognised and not read, with what to give instead."""
    rows = ((known.title, f"`{name}`", known.fix) for name, known in sorted(UNSUPPORTED.items()))
    return table(("what it is", "name", "give instead"), rows)
