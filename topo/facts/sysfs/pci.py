"""GPUs under `/sys/bus/pci/devices`, flattened to lines `path: content`, and their PCI distance.

Keys: `<address>/{vendor,class,numa_node,local_cpulist,realpath}`, and of an RDMA adapter
`<address>/infiniband` (the names in that folder), whose distance from the GPUs is given, too. The
distance follows NVML's levels: the real path is the chain of bridges, so a common prefix tells what
two devices share. Source: kernel documentation ABI/testing/sysfs-bus-pci; nvml.h for the levels.
"""

import re
from dataclasses import dataclass, field

from topo.facts.reading import folding
from topo.facts.reading.identity import normal_bdf
from topo.facts.reading.text import WHOLE_TEXT, in_range, numbered_lines, shorten, stated, whole
from topo.facts.sysfs import roots
from topo.facts.vendors import PCI_IDS
from topo.model.errors import Refusal
from topo.model.ids import Bdf
from topo.model.machine import MAX_GPUS, MAX_NICS, MAX_NUMA, Gpu, Link, LinkKind, LinkMatrix
from topo.model.observation import ParsedProbe

FORMAT = "sysfs-pci"
_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_LINE = re.compile(
    rf"(?:realpath )?(\S{{0,160}}?)/bus/pci/devices/({_ADDRESS})(?:/(\w{{1,40}}))?: ?(.{{0,1000}})",
    re.IGNORECASE | re.ASCII,
)
PATH: re.Pattern[str] = re.compile(
    r"^((?:realpath )?\S{0,160}?/bus/pci/devices/[0-9a-f.:]{1,16}(?:/\w{1,40})?):",
    re.ASCII | re.MULTILINE,
)
_ROOT = re.compile(r"/(pci[0-9a-f]{4,8}:[0-9a-f]{2})(/.*)?$", re.IGNORECASE)
_CPU_LIST = re.compile(r"[0-9,-]{1,512}", re.ASCII)
_CLASSES = ("0x0300", "0x0302", "0x0380", "0x0b40", "0x1200")
"""VGA, 3D and other display controllers, co-processors, processing accelerators."""
_SAME_SWITCH = 2
"""Components left below the common prefix: a downstream port and the device."""


@dataclass(slots=True)
class _Device:
    bdf: Bdf
    words: dict[str, str] = field(default_factory=dict)

    @property
    def numa(self) -> int | None:
        """None for -1, which the kernel writes where the firmware names no node."""
        return in_range(whole(self.words.get("numa_node", ""), 5), MAX_NUMA)

    @property
    def chain(self) -> tuple[str, ...]:
        """Host bridge, bridges and the device itself, from the outside in; empty if unknown."""
        match = _ROOT.search(self.words.get("realpath", ""))
        if match is None:
            return ()
        return (match.group(1), *(p for p in (match.group(2) or "").split("/") if p))

    @property
    def adapters(self) -> tuple[str, ...]:
        """What drivers of RDMA call it; empty for other devices."""
        return tuple(map(shorten, self.words.get("infiniband", "").split()))

    @property
    def is_gpu(self) -> bool:
        # A server's own display controller (its management chip) is of another vendor.
        vendor, kind = self.words.get("vendor", ""), self.words.get("class", "")
        return vendor.lower() in PCI_IDS and kind.lower().startswith(_CLASSES)


def recognises(text: str) -> bool:
    """Return whether `text` has a line of the tree. O(len(text))."""
    return "/bus/pci/devices/" in text and any(
        _LINE.fullmatch(line) for _, line in numbered_lines(text) if "/bus/pci/devices/" in line
    )


def read(text: str) -> ParsedProbe | Refusal:
    """Return GPUs in the order of their addresses, and their matrix where all have a real path.

    Refused: lines of several trees, no GPU of a known vendor, more than `MAX_GPUS`.
    """
    devices: dict[Bdf, _Device] = {}
    trees: dict[str, None] = {}
    for _, line in numbered_lines(text):
        match = _LINE.fullmatch(line) if "/bus/pci/devices/" in line else None
        bdf = normal_bdf(match.group(2)) if match else None
        if match is not None and bdf is not None:
            trees.setdefault(match.group(1))
            device = devices.setdefault(bdf, _Device(bdf))
            device.words.setdefault(match.group(3) or "realpath", match.group(4).strip())
    if (refusal := roots.conflict(trees)) is not None:
        return refusal
    gpus = sorted((d for d in devices.values() if d.is_gpu), key=lambda d: _order(d.bdf))
    if not gpus or len(gpus) > MAX_GPUS:
        what = f"{len(gpus)} GPUs are more than {MAX_GPUS}" if gpus else "no GPU on the PCI bus"
        return Refusal(what, WHOLE_TEXT, "check `lspci -d 9999:` and `lspci -d 10de:`")
    warnings = folding.open_paths(text, "/bus/pci/devices/")
    warnings += [
        f"{device.bdf} has no vendor or no class: it may be a GPU"
        for device in devices.values()
        if not {"vendor", "class"} <= device.words.keys()
    ]
    listed = tuple(Gpu(index, bdf=d.bdf, numa=d.numa) for index, d in enumerate(gpus))
    if not all(device.chain for device in gpus):
        warnings.append("no real paths: PCI distances are left out")
        return stated(FORMAT, (listed,), warnings)
    nics = [(name, d) for d in devices.values() if d.chain for name in d.adapters]
    return stated(FORMAT, (listed, _matrix(gpus, nics[:MAX_NICS])), warnings)


def _order(bdf: Bdf) -> tuple[int, str]:
    domain, rest = bdf.split(":", 1)
    return int(domain, 16), rest


def _matrix(gpus: list[_Device], nics: list[tuple[str, _Device]]) -> LinkMatrix:
    shown = (*gpus, *(device for _, device in nics))
    cpus = (device.words.get("local_cpulist", "") for device in gpus)
    return LinkMatrix(
        gpus=tuple(f"GPU{index}" for index in range(len(gpus))),
        nics=tuple(name for name, _ in nics),
        links=tuple(tuple(_distance(gpu, other) for other in shown) for gpu in gpus),
        numa=tuple(device.numa for device in gpus),
        cpus=tuple(text if _CPU_LIST.fullmatch(text) else "" for text in cpus),
    )


def _distance(one: _Device, other: _Device) -> Link:
    """Return NVML's level between two devices.

    Below different host bridges, nodes decide; two unknown nodes are one (single-socket hosts and
    virtual machines name none).
    """
    if one is other:
        return Link(LinkKind.SELF, "X")
    a, b = one.chain, other.chain
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    if shared == 0:
        same = one.numa == other.numa
        return Link(LinkKind.NUMA_NODE, "NODE") if same else Link(LinkKind.SYSTEM, "SYS")
    if shared == 1:
        return Link(LinkKind.PHB, "PHB")
    if max(len(a), len(b)) - shared <= _SAME_SWITCH:
        return Link(LinkKind.PIX, "PIX")
    return Link(LinkKind.PXB, "PXB")
