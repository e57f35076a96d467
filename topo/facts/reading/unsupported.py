"""Formats that are recognised by name and not read by this version.

Naming them spares people the search for a mistake that they did not make. `fix` is what to give
instead. Patterns need a marker of their own, so that nothing readable lands here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from topo.facts.reading.text import WHOLE_TEXT
from topo.model.errors import Refusal


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A format's name, what it is in words, its marker and what to give instead.

    `begins`: in a log, an output of it begins with the first line that has the marker. `heads`:
    outputs that are read begin with the same lines, so by itself it is only the head of one.
    `alike`: it has the shape of a link matrix that is read and another meaning.
    """

    name: str
    title: str
    pattern: re.Pattern[str]
    fix: str
    begins: bool = False
    heads: bool = False
    alike: bool = False


_HEAD_CHARS = 262_144
_NVIDIA = "give `nvidia-smi topo -m`, `nvidia-smi -q -x` or `nvidia-smi nvlink -s`"
_NVLINK = "give `nvidia-smi nvlink -s`, with the far ends `nvidia-smi nvlink -R`"
_METAX = "give `mx-smi topo -m`, `mx-smi -L` or plain `mx-smi`"
_LOCAL_PORTS = "give the lines `path: content` of /sys/class/infiniband (`topo-worker --record`)"
_FABRIC = "give the output of `ibnetdiscover` itself, which has both ends of every cable"
_ASCEND = "give `npu-smi info -t topo`"
_SUPER_POD = "give `npu-smi info -t spod-info -i 0 -c 0`, or the value superPodDevice"
_PCI = "give the lines `path: content` of /sys/bus/pci/devices (`topo-worker --record`)"
_NODEGROUP = "give the value of its key `nodegroup` alone (`kubectl get cm … -o jsonpath=…`)"
_GROUPS = "declare the groups in nodegroup.yaml, or let the cluster manager state them"


def _unsupported(name: str, title: str, pattern: str, fix: str) -> Unsupported:
    return Unsupported(name, title, re.compile(pattern, re.MULTILINE), fix)


def _printed(name: str, title: str, pattern: str, fix: str) -> Unsupported:
    """Return a format whose marker stands in the first lines that its tool prints."""
    return replace(_unsupported(name, title, pattern, fix), begins=True)


UNSUPPORTED = (
    _printed(
        "ibnetdiscover-ports",
        "the ports of an InfiniBand fabric by ibnetdiscover -p",
        r"^(?:CA|SW|RT)[ \t]+[0-9]+[ \t]+[0-9]+[ \t]+0x[0-9a-f]{16}[ \t]",
        _FABRIC,
    ),
    _printed(
        "ibnetdiscover-list",
        "the devices of an InfiniBand fabric without their cables (ibnetdiscover -l, ibhosts)",
        r"^(?:Ca|Switch|Rt)[ \t]*: 0x[0-9a-f]{16} ports ",
        _FABRIC,
    ),
    _printed(
        "infiniband-errors",
        "the counters of InfiniBand ports by ibqueryerrors or perfquery",
        r'^Errors for (?:0x[0-9a-f]{16} )?"|^# Port (?:extended )?counters: Lid ',
        _LOCAL_PORTS,
    ),
    _printed(
        "iblinkinfo",
        "the links of an InfiniBand fabric by iblinkinfo",
        r"^(?![ \t]*Link info:)[^\n]{1,200} ==\([^\n]{1,80}\)==>",
        _FABRIC,
    ),
    _printed(
        "lldp-text",
        "LLDP neighbours as text or XML",
        r"^LLDP neighbors:|^<lldp label=|^lldp\.[\w.-]+\."
        r"|^[ \t]*(?:Chassis ID|System Name|Port ID) TLV",
        "give `lldpcli -f json0 show neighbors`",
    ),
    _printed("ibstat", "the ports of ibstat", r"^CA '[\w.-]+'", _LOCAL_PORTS),
    _printed("ibstatus", "the ports of ibstatus", r"^Infiniband device '", _LOCAL_PORTS),
    _unsupported(
        "infiniband-table",
        "a table of InfiniBand ports made for people",
        r"^\|[ \t]*HCA[ \t]*\|",
        _LOCAL_PORTS,
    ),
    _printed(
        "lspci",
        "a list of PCI devices by lspci",
        r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] [A-Z0-9][^\n:]{2,60}: ",
        _PCI,
    ),
    _printed(
        "numactl",
        "the NUMA nodes of numactl",
        r"^available: [0-9]+ nodes? \(",
        "NUMA nodes come with `mx-smi topo -m`, `nvidia-smi topo -m` or /sys/bus/pci/devices",
    ),
    _printed("npu-smi-table", "the table of npu-smi", r"\|[ \t]*npu-smi[ \t]+[0-9]", _ASCEND),
    _unsupported(
        "hccl-rank-table",
        "a rank table of one job, which names servers by their addresses",
        r'"super_device_id"\s{0,64}:|"super_pod_list"\s{0,64}:',
        _SUPER_POD,
    ),
    _unsupported(
        "ascend-reset-info",
        "the annotation ResetInfo, which says what was reset and not where it is",
        r'"(?:ThirdParty|Manual)ResetDevs"\s{0,64}:',
        _SUPER_POD,
    ),
    replace(
        _unsupported(
            "nvidia-smi-p2p",
            "a peer-to-peer matrix by nvidia-smi topo -p2p",
            r"^[ \t]*GPU[0-9]+[ \t]+(?:X|OK|CNS|GNS|TNS|NS|DR|U)\b.*\b(?:OK|CNS|GNS|TNS|NS|DR|U)\b"
            r"|^[ \t]*GPU[0-9]+[ \t]+(?:OK|CNS|GNS|TNS|NS|DR|U)\b",
            "it says what peers may do, not how they are wired: give `nvidia-smi topo -m`",
        ),
        alike=True,
    ),
    replace(
        _unsupported(
            "mthreads-gmi",
            "a matrix by Moore Threads' mthreads-gmi topo",
            r"^[ \t]*GPU[0-9]+[ \t].*\bMT[0-9]{1,2}\b|^[ \t]*MT#[ \t]*=",
            f"no tool of Moore Threads is read yet: {_GROUPS}",
        ),
        alike=True,
    ),
    _printed(
        "nvidia-smi-table", "the table of nvidia-smi", r"\|[ \t]*NVIDIA-SMI[ \t]+[0-9]", _NVIDIA
    ),
    _unsupported(
        "nvlink-capabilities",
        "the capabilities of NVLinks by nvidia-smi nvlink -c",
        r"^[ \t]*Link [0-9]{1,4}, .{1,60} supported: (?:true|false)",
        _NVLINK,
    ),
    _unsupported(
        "nvlink-counters",
        "the traffic counters of NVLinks by nvidia-smi nvlink -gt",
        r"^[ \t]*Link [0-9]{1,4}: (?:(?:Data|Raw) )?[TR]x",
        _NVLINK,
    ),
    _unsupported(
        "nvidia-smi-c2c",
        "the links between GPU and CPU by nvidia-smi c2c -s",
        r"^[ \t]*C2C Link [0-9]{1,4}:",
        f"they say nothing about other GPUs: {_NVLINK}",
    ),
    _unsupported(
        "nvlink-other",
        "an output of nvidia-smi nvlink with an option other than -s, -R, -p and -e",
        r"^[ \t]*GPU [0-9]{1,4}: .{0,200}\n[ \t]+(?:Links? [0-9]|NVLE:)",
        _NVLINK,
    ),
    _printed(
        "ixsmi",
        "an output of Iluvatar's ixsmi",
        r"^\|[ \t]*IX-ML:[ \t]*[0-9]|^GPU [0-9]+: Iluvatar\b",
        f"no tool of Iluvatar is read yet: {_GROUPS}",
    ),
    _unsupported(
        "nvidia-smi-list", "a list by nvidia-smi -L", r"^GPU [0-9]+: .{1,80}\(UUID: ", _NVIDIA
    ),
    _printed(
        "nvidia-smi-csv",
        "a query of nvidia-smi as CSV",
        r"^(?:index|uuid|name|gpu_name|timestamp|pci\.bus_id|fabric\.\w+)(?:,[\w.\[\] %]+)+$",
        _NVIDIA,
    ),
    _printed(
        "nvidia-smi-monitor",
        "a monitor of nvidia-smi (dmon, pmon)",
        r"^#[ \t]*gpu[ \t]+(?:pwr|pid|sm|idx)\b",
        _NVIDIA,
    ),
    _printed(
        "mx-smi-monitor",
        "a monitor of mx-smi as CSV (dmon)",
        r"^dev,[ \t]*(?:die|hottemp|power|gpu)\b",
        _METAX,
    ),
    _printed(
        "mxvs",
        "a report of MetaX's validation tool (mxvs)",
        r"^[ \t]*(?:METAXLINK PORTS|(?:CURRENT|MAXIMUM) PCIE)[ \t]",
        _METAX,
    ),
    _printed(
        "mx-exporter-log",
        "a log of mx-exporter",
        r"\bGpuMonitor\b|^Using lib from .{1,200}libmxsml",
        "give its metrics: `curl http://<node>:8000/metrics`",
    ),
    replace(
        _printed(
            "mx-smi-log",
            "a log of mx-smi other than its table and matrix",
            r"(?:MetaX|Mars) System Management Interface Log|^(?:mx|ht)-smi[ \t]+version:"
            r"|^(?:Attached GPUs[^\n]*\n{1,2})?Device link type matrix",
            _METAX,
        ),
        heads=True,
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
        "the compute nodes of an NVLink manager by netq or NMX-M",
        r'"(?:DomainUUID|LocationInfo)"\s{0,64}:',
        "give `nvidia-smi -q -x` of the nodes",
    ),
    _printed(
        "ppu-smi",
        "a list or a matrix of T-Head PPUs by ppu-smi (icn, topo)",
        r"^PPU [0-9]+:|^[ \t]*PPU[0-9]+[ \t]",
        f"no tool of T-Head is read yet: {_GROUPS}",
    ),
    _printed(
        "xpu-smi",
        "a topology by Intel's xpu-smi",
        r"^\|[ \t]*Device ID[ \t]*\|[ \t]*Topology Information|^[ \t]*GPU [0-9]+/[0-9]+[ \t]*\|",
        f"no tool of Intel is read yet: {_GROUPS}",
    ),
    _printed(
        "dcgmi",
        "a topology or link status by dcgmi (or AMD's rdci)",
        r"^\|[^|\n]{1,80}\|[ \t]*Topology Information\b|^\|[ \t]*To GPU [0-9]+[ \t]*\|"
        r"|^\|[ \t]*NvLink Link Status\b",
        _NVIDIA,
    ),
    _printed(
        "hy-smi",
        "an output of Hygon's hy-smi",
        r"^=+ System Management Interface =+|^[HD]CU(?:[ \t]+Temp\b|\[[0-9]{1,3}\])"
        r"|between two [HD]CUs",
        f"no tool of Hygon is read yet: {_GROUPS}",
    ),
    _printed(
        "rocm-smi",
        "an output of AMD's rocm-smi or amd-smi",
        r"(?:Weight|Hops|Link Type) between two GPUs|\bROCm System Management Interface\b"
        r"|End of ROCm SMI Log|^\|[ \t]*AMD-SMI[ \t]|\(Topology\) "
        r"|^[A-Z][A-Z -]{2,24} TABLE:[ \t]*$|^[ \t]*GPU[0-9]+[ \t].*\b(?:XGMI|PCIE)\b"
        r'|"link_type"\s{0,64}:\s{0,64}"(?:XGMI|PCIE)"',
        f"no tool of AMD is read yet: {_GROUPS}",
    ),
    _printed(
        "netq-show",
        "a table of NVIDIA NetQ by netq show",
        r"^Matching [\w-]{1,40} records:",
        "NetQ is not read yet; for NVLink domains give `nvidia-smi -q -x` of the nodes",
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
    _printed(
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
    """Return the first unsupported format whose marker is near the beginning of `text`. O(1)."""
    head = text[:_HEAD_CHARS]
    return next(
        (unsupported for unsupported in UNSUPPORTED if unsupported.pattern.search(head)), None
    )


def begins(unsupported: Unsupported, text: str) -> Iterator[int]:
    """Return where in a log outputs of this format may begin: the lines that have its marker."""
    if unsupported.begins:
        for match in unsupported.pattern.finditer(text):
            yield text.rfind("\n", 0, match.start()) + 1


def refusal(unsupported: Unsupported) -> Refusal:
    """Return the refusal of an unsupported format."""
    what = f"this is {unsupported.title} ({unsupported.name}), which this version does not read"
    return Refusal(what, WHOLE_TEXT, unsupported.fix)
