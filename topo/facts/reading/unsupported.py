"""Formats that are recognised by name and not read by this version.

Naming them spares people the search for a mistake that they did not make. `fix` is what to give
instead. Patterns need a marker of their own, so that nothing readable lands here.
"""

import re
from dataclasses import dataclass

from topo.model.errors import Refusal


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A format's name, what it is in words, its marker and what to give instead."""

    name: str
    title: str
    pattern: re.Pattern[str]
    fix: str


_HEAD_CHARS = 262_144
_NVIDIA = "give `nvidia-smi topo -m`, `nvidia-smi -q -x` or `nvidia-smi nvlink -s`"
_METAX = "give `mx-smi topo -m`, `mx-smi -L` or plain `mx-smi`"
_LOCAL_PORTS = "give the lines `path: content` of /sys/class/infiniband (`topo-worker --record`)"
_FABRIC = "switch fabrics are not read yet; declare the groups in nodegroup.yaml meanwhile"
_ASCEND = "give `npu-smi info -t topo`"
_PCI = "give the lines `path: content` of /sys/bus/pci/devices (`topo-worker --record`)"
_NODEGROUP = "give the value of its key `nodegroup` alone (`kubectl get cm … -o jsonpath=…`)"
_GROUPS = "declare the groups in nodegroup.yaml, or let the cluster manager state them"


def _unsupported(name: str, title: str, pattern: str, fix: str) -> Unsupported:
    return Unsupported(name, title, re.compile(pattern, re.MULTILINE), fix)


UNSUPPORTED = (
    _unsupported(
        "ibnetdiscover",
        "a dump of an InfiniBand fabric by ibnetdiscover",
        r'^# Topology file: generated on|^(?:Switch|Ca|Rt)[ \t]+[0-9]+[ \t]+"[SHR]-',
        _FABRIC,
    ),
    _unsupported(
        "lldp-json",
        "LLDP neighbours in JSON (lldpcli, lldpctl)",
        r'"lldp"\s{0,64}:\s{0,64}[\[{]',
        "LLDP is not read yet; declare the groups in nodegroup.yaml meanwhile",
    ),
    _unsupported(
        "lldp-text",
        "LLDP neighbours as text",
        r"^LLDP neighbors:|^lldp\.[\w.-]+\.|^[ \t]*(?:Chassis ID|System Name|Port ID) TLV",
        "LLDP is not read yet; declare the groups in nodegroup.yaml meanwhile",
    ),
    _unsupported("ibstat", "the ports of ibstat", r"^CA '[\w.-]+'", _LOCAL_PORTS),
    _unsupported("ibstatus", "the ports of ibstatus", r"^Infiniband device '", _LOCAL_PORTS),
    _unsupported(
        "infiniband-table",
        "a table of InfiniBand ports made for people",
        r"^\|[ \t]*HCA[ \t]*\|",
        _LOCAL_PORTS,
    ),
    _unsupported(
        "lspci",
        "a list of PCI devices by lspci",
        r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] [A-Z0-9][^\n:]{2,60}: ",
        _PCI,
    ),
    _unsupported(
        "numactl",
        "the NUMA nodes of numactl",
        r"^available: [0-9]+ nodes? \(",
        "NUMA nodes come with `mx-smi topo -m`, `nvidia-smi topo -m` or /sys/bus/pci/devices",
    ),
    _unsupported("npu-smi-table", "the table of npu-smi", r"\|[ \t]*npu-smi[ \t]+[0-9]", _ASCEND),
    _unsupported(
        "npu-smi-spod-info",
        "an Ascend super pod's identity (npu-smi info -t spod-info)",
        r"^[ \t]*Super Pod (?:ID|Size)[ \t]*:",
        "super pods are not read yet; declare the groups in nodegroup.yaml meanwhile",
    ),
    _unsupported(
        "nvidia-smi-p2p",
        "a peer-to-peer matrix (nvidia-smi topo -p2p)",
        r"^[ \t]*GPU[0-9]+[ \t]+(?:X|OK|CNS|GNS|TNS|NS|DR|U)\b.*\b(?:OK|CNS|GNS|TNS|NS|DR|U)\b"
        r"|^[ \t]*GPU[0-9]+[ \t]+(?:OK|CNS|GNS|TNS|NS|DR|U)\b",
        "it says what peers may do, not how they are wired: give `nvidia-smi topo -m`",
    ),
    _unsupported(
        "nvidia-smi-table", "the table of nvidia-smi", r"\|[ \t]*NVIDIA-SMI[ \t]+[0-9]", _NVIDIA
    ),
    _unsupported(
        "nvidia-smi-list", "a list by nvidia-smi -L", r"^GPU [0-9]+: .{1,80}\(UUID: ", _NVIDIA
    ),
    _unsupported(
        "nvidia-smi-csv",
        "a query of nvidia-smi as CSV",
        r"^(?:index|uuid|name|gpu_name|timestamp|pci\.bus_id|fabric\.\w+)(?:,[\w.\[\] %]+)+$",
        _NVIDIA,
    ),
    _unsupported(
        "nvidia-smi-monitor",
        "a monitor of nvidia-smi (dmon, pmon)",
        r"^#[ \t]*gpu[ \t]+(?:pwr|pid|sm|idx)\b",
        _NVIDIA,
    ),
    _unsupported(
        "mx-smi-monitor",
        "a monitor of mx-smi as CSV (dmon)",
        r"^dev,[ \t]*(?:die|hottemp|power|gpu)\b",
        _METAX,
    ),
    _unsupported(
        "mxvs",
        "a report of MetaX's validation tool (mxvs)",
        r"^[ \t]*(?:METAXLINK PORTS|(?:CURRENT|MAXIMUM) PCIE)[ \t]",
        _METAX,
    ),
    _unsupported(
        "mx-exporter-log",
        "a log of mx-exporter",
        r"\bGpuMonitor\b|^Using lib from .{1,200}libmxsml",
        "give its metrics: `curl http://<node>:8000/metrics`",
    ),
    _unsupported(
        "mx-smi-log",
        "a log of mx-smi other than its table and matrix",
        r"MetaX System Management Interface Log|^mx-smi[ \t]+version:",
        _METAX,
    ),
    _unsupported(
        "gpustack-json",
        "devices or distances as gpustack writes them",
        r'"devices_distances"\s{0,64}:|"manufacturer"\s{0,64}:\s{0,64}"',
        "give the vendor's own output: `mx-smi topo -m`, `nvidia-smi topo -m`, `npu-smi info`",
    ),
    _unsupported(
        "gpud-fabric-state",
        "the fabric state as gpud shows it",
        r'"fabric_states?\w{0,20}"\s{0,64}:|^\|[ \t]*GPU UUID[ \t]*\|',
        "give `nvidia-smi -q -x` of the same host",
    ),
    _unsupported(
        "nmx-compute-nodes",
        "compute nodes of an NVLink manager (NMX, NetQ)",
        r'"(?:DomainUUID|LocationInfo)"\s{0,64}:',
        "give `nvidia-smi -q -x` of the nodes",
    ),
    _unsupported("ppu-smi", "links of a T-Head PPU (ppu-smi icn)", r"^PPU [0-9]+:", _GROUPS),
    _unsupported(
        "rocm-smi",
        "the topology of AMD GPUs (rocm-smi, amd-smi)",
        r"(?:Weight|Hops|Link Type) between two GPUs|\bROCm System Management Interface\b",
        _GROUPS,
    ),
    _unsupported(
        "topo-master-config",
        "the ConfigMap object around nodegroup.yaml",
        r"^[ \t]{1,8}\"?nodegroup\"?:",
        _NODEGROUP,
    ),
    _unsupported(
        "kubernetes-object",
        "a Kubernetes object",
        r"^[ \t]{0,16}[{]?[ \t]{0,16}\"?apiVersion\"?[ \t]*:",
        _GROUPS,
    ),
    _unsupported(
        "kubernetes-resources",
        "the resources of a Kubernetes node",
        r'"(?:ephemeral-storage|metax-tech\.com/gpu|nvidia\.com/gpu)"\s{0,64}:',
        _GROUPS,
    ),
    _unsupported(
        "kubectl-table",
        "a table of kubectl get",
        r"^(?:NAMESPACE[ \t]+)?NAME[ \t]+[A-Z][A-Z-]{2,40}\b",
        _GROUPS,
    ),
    _unsupported(
        "prometheus-metrics",
        "metrics of another exporter than mx-exporter",
        r"^# (?:HELP|TYPE) \w|^DCGM_FI_\w",
        "give the metrics of mx-exporter, or `nvidia-smi -q -x`",
    ),
    _unsupported(
        "slurm-topology",
        "a topology file of Slurm",
        r"^(?:SwitchName|BlockName)=",
        _GROUPS,
    ),
    _unsupported(
        "sysfs-listing",
        "lines of sysfs or procfs that are not read",
        r"^/(?:sys|proc)/[\w./:-]{2,200}: ?",
        "the trees that are read: /sys/class/infiniband and /sys/bus/pci/devices",
    ),
)
"""In order: what has the more telling marker first."""


def find(text: str) -> Unsupported | None:
    """The first unsupported format whose marker is near the beginning of `text`. O(1)."""
    head = text[:_HEAD_CHARS]
    return next(
        (unsupported for unsupported in UNSUPPORTED if unsupported.pattern.search(head)), None
    )


def refusal(unsupported: Unsupported) -> Refusal:
    """The refusal of an unsupported format."""
    what = f"this is {unsupported.title} ({unsupported.name}), which this version does not read"
    return Refusal(what, "the whole text", unsupported.fix)
