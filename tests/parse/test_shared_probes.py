"""Real outputs beside the repository: for every file, what must come out of it.

The files are not part of the repository; without them the tests are skipped. A file that is not in
the table has to be answered all the same.
"""

from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import pytest

from tests.parse.answers import items, matrix_of, refused, understood
from topo.facts import decode, parse, recognise
from topo.model.errors import Refusal
from topo.model.machine import (
    FabricDomain,
    FabricKind,
    Gpu,
    GpuFabric,
    LinkKind,
    LinkPort,
    NetworkPort,
    NicNeighbour,
    PortState,
)
from topo.model.observation import ParsedProbe

FOLDER = Path(__file__).resolve().parents[2].parent / "shared/data/probes"
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file()) if FOLDER.is_dir() else []
FAST = {
    LinkKind.METAXLINK,
    LinkKind.NVLINK,
    LinkKind.HCCS,
    LinkKind.HCCS_SW,
    LinkKind.SIO,
    LinkKind.UNIFIED_BUS,
}


@dataclass(frozen=True)
class Matrix:
    """GPUs, NICs, NIC rows, and the islands of GPUs joined by the vendor's own links."""

    format: str
    gpus: int
    nics: int
    islands: list[list[int]]
    nic_rows: bool = True
    numa: tuple[int | None, ...] | None = None
    cpus: tuple[str, ...] | None = None
    codes: frozenset[str] | None = None
    """The codes between GPUs."""
    warnings: int = 0


@dataclass(frozen=True)
class Gpus:
    """How many GPUs, of which model, how healthy, with how many ports in which state."""

    format: str
    gpus: int
    model: str | None = None
    healthy: bool | None = None
    ports: tuple[int, int, int] = (0, 0, 0)
    """Up, down, unused."""
    first_bdf: str | None = None
    warnings: int = 0


@dataclass(frozen=True)
class Fabric:
    """How many GPUs and fabrics, the domain that all of them are in, and their health."""

    format: str
    gpus: int
    fabrics: int
    member_of: FabricDomain | None
    healthy: bool | None
    state: str = "Completed"
    warnings: int = 0


@dataclass(frozen=True)
class Nics:
    """How many ports, how many of them up, and their link layers."""

    format: str
    ports: int
    up: int
    layers: frozenset[str]


@dataclass(frozen=True)
class Neighbours:
    """What the devices at the ends of the interfaces are called, in the order of interfaces."""

    format: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """The format's name, and words of the finding."""

    format: str | None
    words: str


def known(name: str) -> Refused:
    """A format that is named and not read."""
    return Refused(name, f"({name}), which this version does not read")


ALL8 = [[0, 1, 2, 3, 4, 5, 6, 7]]
HALVES = [[0, 1, 2, 3], [4, 5, 6, 7]]
ALONE8 = [[i] for i in range(8)]


def halves(first: str, second: str) -> tuple[str, ...]:
    """The CPU lists of eight GPUs on two sockets."""
    return (first,) * 4 + (second,) * 4


SPLIT = (0, 0, 0, 0, 1, 1, 1, 1)
UNSAID8 = (None,) * 8
SUPER_POD = FabricDomain("superpod-0", kind=FabricKind.SUPER_POD)
GB200 = FabricDomain("00000001-0000-0000-0000-000000000001", 2)
UNHEALTHY = FabricDomain("dc6e40c4-d722-4357-9ba6-5291dd461278", 2)
NV = "nvidia-smi-topo"

EXPECTED: dict[str, Matrix | Gpus | Fabric | Nics | Neighbours | Refused] = {
    "mx-smi-topo-m.c500-4gpu-8numa.txt": Matrix(
        "mx-smi-topo", 4, 0, [[0, 1, 2, 3]], numa=(0, 0, 0, 0), codes=frozenset({"X", "MX"})
    ),
    "mx-smi-topo-m.c500-8gpu-2x4-sys-excerpt.txt": Matrix(
        "mx-smi-topo", 8, 0, HALVES, numa=UNSAID8, codes=frozenset({"X", "MX", "SYS"})
    ),
    "mx-smi-topo-m.c500-8gpu-2x4.txt": Matrix(
        "mx-smi-topo", 8, 0, HALVES, numa=(0,) * 8, codes=frozenset({"X", "MX", "NODE"})
    ),
    "mx-smi-topo-n.c500-8gpu-6nic.txt": Matrix("mx-smi-topo", 8, 6, HALVES, numa=(0,) * 8),
    "npu-smi-topo.a3-2chip-sio.txt": Matrix("npu-smi-topo", 2, 0, [[0, 1]]),
    "npu-smi-topo.a3-4chip-excerpt.txt": Refused("npu-smi-topo", "row Phy-ID12 is missing: 2 of 4"),
    "nvidia-smi-topo-m.4gpu-phb-spaces.txt": Matrix(
        NV, 4, 0, [[0], [1], [2], [3]], numa=(0, 0, 0, 0), codes=frozenset({"X", "PHB"})
    ),
    "nvidia-smi-topo-m.a100-pcie-4gpu-2bridged-pairs.txt": Matrix(
        NV, 4, 0, [[0, 1], [2, 3]], numa=(0, 0, 1, 1), codes=frozenset({"X", "NV12", "SYS"})
    ),
    "nvidia-smi-topo-m.a100-sxm-8gpu-10nic.txt": Matrix(
        NV, 8, 10, ALL8, numa=SPLIT, codes=frozenset({"X", "NV12"})
    ),
    "nvidia-smi-topo-m.ansi-escape-header-excerpt.txt": Matrix(
        NV, 8, 9, ALL8, nic_rows=False, numa=SPLIT, codes=frozenset({"X", "NV18"}), warnings=1
    ),
    "nvidia-smi-topo-m.b200-8gpu-gpu2-nvlink-down-excerpt.txt": Refused(NV, "header row"),
    "nvidia-smi-topo-m.dgx-h100-8gpu-12nic-excerpt.txt": Matrix(
        NV, 8, 12, ALL8, nic_rows=False, numa=SPLIT, codes=frozenset({"X", "NV18"}), warnings=1
    ),
    "nvidia-smi-topo-m.dgx1-v100-8gpu-4ib.txt": Matrix(
        NV, 8, 4, ALL8, numa=UNSAID8, codes=frozenset({"X", "NV1", "NV2", "SYS"})
    ),
    "nvidia-smi-topo-m.gb200-4gpu-8nic.txt": Matrix(
        NV, 4, 8, [[0, 1, 2, 3]], numa=(0, 0, 1, 1), codes=frozenset({"X", "NV18"})
    ),
    "nvidia-smi-topo-m.h100-pcie-2gpu-nv12.txt": Matrix(NV, 2, 0, [[0, 1]], numa=(1, 1)),
    "nvidia-smi-topo-m.pcie-8gpu-2numa.txt": Matrix(
        NV, 8, 0, ALONE8, numa=SPLIT, codes=frozenset({"X", "NODE", "SYS"})
    ),
    "nvidia-smi-topo-m.rtx4090-8gpu-all-sys.txt": Matrix(
        NV, 8, 2, ALONE8, numa=SPLIT, codes=frozenset({"X", "SYS"}), warnings=1
    ),
    "nvidia-smi-topo-m.v100-sxm2-8gpu-1nic.txt": Matrix(
        NV, 8, 1, ALL8, numa=SPLIT, codes=frozenset({"X", "NV1", "NV2", "SYS"})
    ),
    "mx-smi-L.c500-2of8-excerpt.txt": Gpus(
        "mx-smi-list", 2, "MXC500", healthy=True, first_bdf="0000:08:00.0", warnings=1
    ),
    "mx-smi.c500-4gpu-2.1.6.txt": Gpus("mx-smi-table", 4, "MXC500", first_bdf="0000:05:00.0"),
    "mx-smi.c500-8gpu-2.2.9.txt": Gpus(
        "mx-smi-table", 8, "MXC500", healthy=True, first_bdf="0000:0e:00.0"
    ),
    "mx-smi.c550-1gpu-pod-2.1.12.txt": Gpus("mx-smi-table", 1, "MXC550", first_bdf="0000:2a:00.0"),
    "mx-smi.c550-8gpu-2.2.4.txt": Gpus(
        "mx-smi-table", 8, "MXC550", healthy=True, first_bdf="0000:0f:00.0"
    ),
    "mx-exporter-metrics.c550-8gpu-excerpt.txt": Gpus("mx-exporter", 8, "MXC550"),
    "nvidia-smi-nvlink-R.h100-pcie-2gpu.txt": Gpus(
        "nvlink-remote", 2, "NVIDIA H100 PCIe", ports=(24, 0, 0)
    ),
    "nvidia-smi-nvlink-s.h100-pcie-2gpu-6inactive.txt": Gpus(
        "nvlink-status", 2, "NVIDIA H100 PCIe", ports=(24, 0, 12)
    ),
    "nvidia-smi-nvlink-status.a100-8gpu.txt": Gpus(
        "nvlink-status", 8, "NVIDIA A100-SXM4-80GB", ports=(96, 0, 0)
    ),
    "nvidia-smi-q-fabric.gb200-azure-insufficient-resources.txt": Fabric(
        "nvidia-smi-fabric", 0, 1, None, None, warnings=1
    ),
    "nvidia-smi-q-fabric.mnnvl-unhealthy.txt": Fabric(
        "nvidia-smi-fabric", 0, 1, UNHEALTHY, healthy=False, warnings=1
    ),
    "nvidia-smi-q-x.a100-sxm4-1gpu.xml": Fabric("nvidia-smi-xml", 1, 1, None, None, state="N/A"),
    "nvidia-smi-q-x.l40s-1gpu.xml": Fabric("nvidia-smi-xml", 1, 1, None, None, state="N/A"),
    "nvidia-smi-q-x.gb200-4gpu.xml": Fabric("nvidia-smi-xml", 4, 4, GB200, healthy=True),
    "sysfs-class-infiniband.h100-9hca.txt": Nics(
        "sysfs-infiniband", 9, 9, frozenset({"InfiniBand", "Ethernet"})
    ),
    "mx-smi.no-driver.stderr.txt": Refused("complaint", "mx-smi is not installed"),
    "nvidia-smi.not-installed.stderr.txt": Refused("complaint", "nvidia-smi is not installed"),
    "nvidia-smi.no-driver.exit9.txt": Refused("complaint", "driver is not loaded"),
    "nvidia-smi.driver-mismatch.txt": Refused("complaint", "different versions"),
    "pynvml-nvmlInit.no-driver.exception.txt": Refused("complaint", "NVML library"),
    "gpud-fabric-state.gb200-2gpu-completed-notsupported-health.json": known("gpud-fabric-state"),
    "gpud-fabric-state.gb200-not-supported.txt": known("gpud-fabric-state"),
    "ibnetdiscover.qm9700-redacted-excerpt.out": Refused("ibnetdiscover", "this line is none of"),
    "ibstat.mlx4-2port-1down.txt": known("ibstat"),
    "ibstatus.cx7-1port.txt": known("ibstatus"),
    "sysfs-infiniband-ports.c550-4xroce.md": known("infiniband-table"),
    "k8s-node-allocatable.mxc550-8gpu.json": known("kubernetes-resources"),
    "k8s-node.mxc550-8gpu.yaml": known("kubernetes-object"),
    "unifabric-fabricnode.metax-shanghai-cube.yaml": known("kubernetes-object"),
    "unifabric-scaleupgroup.metax-shanghai-cube.txt": known("kubectl-table"),
    "metax-device-config.rendered-default-0.15.2.yaml": known("kubernetes-object"),
    "metax-topo-master-config.rendered-default-0.15.2.yaml": known("topo-master-config"),
    "lldpcli-json0.sonic-gpu-node-5ports.json": Neighbours(
        "lldpcli", ("StorageSW", "LEAF01", "LEAF02", "LEAF03", "LEAF04")
    ),
    "lldpctl-json.juniper-1if.json": Neighbours("lldpcli", ("router",)),
    "lspci-nn.a100-nvswitch.txt": known("lspci"),
    "numactl-hardware.c500-4gpu-8numa.txt": known("numactl"),
    "mx-exporter-log.c550-8gpu.txt": known("mx-exporter-log"),
    "mx-smi-count-ecc.c500-1of8-excerpt.txt": known("mx-smi-log"),
    "mx-smi-dmon-header.c600-like-testdata.csv": known("mx-smi-monitor"),
    "mxvs-bandwidth.c500-8gpu-excerpt.txt": known("mxvs"),
    "netq-nmx-compute-nodes.test.json": known("nmx-compute-nodes"),
    "npu-smi-spod-info.a3-384.txt": Fabric("npu-smi-spod-info", 1, 1, SUPER_POD, None),
    "npu-smi.910b3-8npu.txt": known("npu-smi-table"),
    "nvidia-smi-topo-p2p-rw.rtx5090-2gpu.txt": known("nvidia-smi-p2p"),
    "ppu-smi-icn-r.alibaba-ppu-excerpt.txt": known("ppu-smi"),
    "gpustack/detect_output_metax_c500.json": known("gpustack-json"),
    "gpustack/detect_output_metax_c600-a.excerpt.json": known("gpustack-json"),
    "gpustack/topology_output_ascend_910b2.json": known("gpustack-json"),
    "gpustack/topology_output_hygon_k100ai.json": known("gpustack-json"),
    "gpustack/topology_output_metax_c500.json": known("gpustack-json"),
    "gpustack/topology_output_nvidia_h100.json": known("gpustack-json"),
    "wild/W02.topo-m.h200-8gpu-10nic-slurm-spaces.txt": Matrix(
        NV, 8, 10, ALL8, numa=SPLIT, cpus=("",) * 4 + ("56",) * 4, codes=frozenset({"X", "NV18"})
    ),
    "wild/W03.topo-m.gb200-nvl72-ansi-exact.txt": Matrix(
        NV, 4, 6, [[0, 1, 2, 3]], numa=(0, 0, 1, 1), cpus=("0-35", "0-35", "", "")
    ),
    "wild/W04.topo-m.h200-9nic-blog-ruled-NUMA-heading.txt": Matrix(
        NV, 8, 9, ALL8, numa=SPLIT, cpus=halves("0,2-47,96-143", "48-95,144-191")
    ),
    "wild/W05.topo-m.v100-8gpu-2nic-doubled-tabs.txt": Matrix(
        NV, 8, 2, ALL8, numa=SPLIT, cpus=halves("0-23,48-71", "24-47,72-95")
    ),
    "wild/W10.topo-m.2x4090-2nic-wrapped-legend.txt": Matrix(
        NV, 2, 2, [[0], [1]], numa=(0, 0), cpus=("0-63", "0-63")
    ),
    "wild/W16.topo-m.dgx1-p100-glued-header-soc.txt": Matrix(
        NV, 8, 4, ALL8, numa=UNSAID8, codes=frozenset({"X", "NV1", "SOC"})
    ),
    "wild/W21.topo-m.gh200-4gpu-nv6-numa-lists.txt": Matrix(
        NV, 4, 0, [[0, 1, 2, 3]], numa=(0, 1, 2, 3), cpus=("0-71", "72-143", "144-215", "216-287")
    ),
    "wild/W46.mx-smi.c500-1gpu-2.2.4.txt": Gpus(
        "mx-smi-table", 1, "MXC500", healthy=True, first_bdf="0000:01:00.0"
    ),
    "wild/W47.mx-smi.n260-2gpu-2.2.8.txt": Gpus(
        "mx-smi-table", 2, "MXN260", healthy=True, first_bdf="0000:01:00.0"
    ),
    "wild/W63.npu-smi-topo.a5-ub-4card.txt": Matrix(
        "npu-smi-topo",
        8,
        0,
        HALVES,
        cpus=halves("0-63,128-191", "64-127,192-255"),
        codes=frozenset({"X", "UB", "SYS"}),
    ),
    "wild/W65.npu-smi-topo.910b-8npu-header-at-col0.txt": Matrix(
        "npu-smi-topo", 8, 0, ALL8, codes=frozenset({"X", "HCCS"})
    ),
    "wild/W70.topo-m.a800-8gpu-2nic-cpu-numa-glued.txt": Matrix(
        NV, 8, 2, ALL8, numa=SPLIT, cpus=halves("0-31,64-95", "32-63,96-127"), warnings=1
    ),
    "wild/W71.ht-smi-topo-m.marsx20x-8gpu-HT.txt": Matrix(
        "mx-smi-topo", 8, 0, ALL8, numa=(2, 2, 3, 3, 6, 6, 7, 7), codes=frozenset({"X", "HT"})
    ),
    "wild/W72.ht-smi.marsx201-8gpu-2.2.9.txt": Gpus(
        "mx-smi-table", 8, "Mars X201", healthy=True, first_bdf="0000:4b:00.0"
    ),
    "wild/W73.ht-smi.marsx201-2.2.4-1of8.txt": Gpus(
        "mx-smi-table", 1, "Mars X201", healthy=True, first_bdf="0000:1b:00.0", warnings=1
    ),
    "wild/W74.mx-smi.c500-1gpu-2.2.6.txt": Gpus(
        "mx-smi-table", 1, "MXC500", healthy=True, first_bdf="0000:38:00.0"
    ),
    "INDEX.md": Refused(None, "in no format known to this version"),
}

pytestmark = pytest.mark.skipif(not FILES, reason=f"no recorded outputs at {FOLDER}")


def text_of(name: str) -> str:
    text = decode((FOLDER / name).read_bytes())
    assert isinstance(text, str)
    return text


def rows(kind: type) -> list[object]:
    return [
        pytest.param(name, expected, id=name)
        for name, expected in EXPECTED.items()
        if isinstance(expected, kind)
    ]


def check(name: str, expected: Matrix | Gpus | Fabric | Nics | Neighbours) -> ParsedProbe:
    """What all readable files have in common."""
    if not (FOLDER / name).is_file():
        pytest.skip(f"{name} is not there")
    text = text_of(name)
    assert recognise(text) == expected.format
    found = understood(text)
    assert found.format == expected.format
    return found


@pytest.mark.parametrize(("name", "expected"), rows(Matrix))
def test_a_recorded_matrix(name, expected):
    """Counts, islands, NUMA nodes, and symmetry between GPUs."""
    probe = check(name, expected)
    found = matrix_of(probe)
    size = len(found.gpus)
    assert (size, len(found.nics)) == (expected.gpus, expected.nics)
    assert len(found.links) == size + (expected.nics if expected.nic_rows else 0)
    assert {len(row) for row in found.links} == {size + expected.nics}
    block = [row[:size] for row in found.links[:size]]
    assert all(block[a][b] == block[b][a] for a in range(size) for b in range(size))
    assert [row[i].kind for i, row in enumerate(block)] == [LinkKind.SELF] * size
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from((a, b) for a in range(size) for b in range(a) if block[a][b].kind in FAST)
    assert sorted(sorted(part) for part in nx.connected_components(graph)) == expected.islands
    assert found.numa == (expected.numa or (None,) * size)
    if expected.cpus is not None:
        assert found.cpus == expected.cpus
    if expected.codes is not None:
        assert {link.code for row in block for link in row} == expected.codes
    assert found.unknown_codes == 0
    assert len(probe.warnings) == expected.warnings


@pytest.mark.parametrize(("name", "expected"), rows(Gpus))
def test_a_recorded_list(name, expected):
    """GPUs and ports."""
    probe = check(name, expected)
    gpus, ports = items(probe, Gpu), items(probe, LinkPort)
    assert len(gpus) == expected.gpus
    assert {gpu.model for gpu in gpus} == {expected.model}
    assert {gpu.healthy for gpu in gpus} == {expected.healthy}
    assert gpus[0].bdf == expected.first_bdf
    order = (PortState.UP, PortState.DOWN, PortState.UNUSED)
    assert tuple(sum(p.state is state for p in ports) for state in order) == expected.ports
    assert len(probe.warnings) == expected.warnings


@pytest.mark.parametrize(("name", "expected"), rows(Fabric))
def test_a_recorded_fabric(name, expected):
    """Membership, state and health of every GPU."""
    probe = check(name, expected)
    fabrics = items(probe, GpuFabric)
    assert (len(items(probe, Gpu)), len(fabrics)) == (expected.gpus, expected.fabrics)
    assert {f.member_of for f in fabrics} == {expected.member_of}
    assert {(f.state, f.healthy) for f in fabrics} == {(expected.state, expected.healthy)}
    assert len(probe.warnings) == expected.warnings


@pytest.mark.parametrize(("name", "expected"), rows(Nics))
def test_recorded_ports(name, expected):
    """InfiniBand and RoCE."""
    found = items(check(name, expected), NetworkPort)
    assert (len(found), sum(port.up for port in found)) == (expected.ports, expected.up)
    assert {port.link_layer for port in found} == expected.layers


@pytest.mark.parametrize(("name", "expected"), rows(Neighbours))
def test_recorded_neighbours(name, expected):
    """By LLDP."""
    found = items(check(name, expected), NicNeighbour)
    assert tuple(each.name for each in found) == expected.names


@pytest.mark.parametrize(("name", "expected"), rows(Refused))
def test_a_recorded_text_that_is_refused(name, expected):
    """By name, with what to do."""
    if not (FOLDER / name).is_file():
        pytest.skip(f"{name} is not there")
    text = text_of(name)
    assert recognise(text) == expected.format
    assert expected.words in refused(text).what


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_recorded_text_is_answered(path):
    """Listed above or not: an observation with facts, or a refusal; cut in half as well."""
    text = text_of(str(path.relative_to(FOLDER)))
    for part in (text, text[: len(text) // 2], text.replace("\n", "\r\n")):
        found = parse(part)
        assert isinstance(found, Refusal) or found.facts
    assert parse(text) == parse(text.replace("\n", "\r\n"))
