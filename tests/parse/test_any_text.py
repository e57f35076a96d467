"""Whatever the bytes: an observation or a refusal, in bounded time, and never an exception."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse import texts
from tests.parse.answers import codes_of, matrix_of, refused, understood
from tests.parse.texts import Tray
from topo.facts import FORMATS, MAX_BYTES, decode, parse, recognise
from topo.model.errors import Refusal
from topo.model.observation import ParsedProbe

MEGABYTE = 10**6
SCRAPS = (
    "GPU0", "GPU1", "NIC0", "Phy-ID0", "\t", " ", "\n", "X", "NV12", "MX", "PIX", "CPU Affinity",
    "GPU#0", "Available", "| MX-SMI 2 |", "| Bus-id |", "|---", "mx_mxlk_speed", '{deviceId="0"',
    "} 1", "Fabric", "State : Completed", "<nvidia_smi_log>", '<gpu id="', "</gpu>", "Link 0: ",
    "GPU 0: ", "inactive", "/sys/class/infiniband/m/ports/1/state: ", "/sys/bus/pci/devices/",
    "0000:00:00.0", '{"format": "nvml"', '"devices": [', "group:", "- name: ", "kind: node", "]",
    "}", "\x1b[4m", "\x00", "\ufffd", "\ud800", "9" * 5000,
)  # fmt: skip


@given(st.text())
def test_any_text_is_answered(text):
    """By name of the format or not."""
    assert isinstance(parse(text), ParsedProbe | Refusal)
    assert isinstance(recognise(text), str | None)


@given(st.lists(st.sampled_from(SCRAPS), max_size=40).map("".join), st.sampled_from(FORMATS))
def test_any_scraps_of_the_formats_are_answered(text, format_name):
    """Also by the reader of another format."""
    for found in (parse(text), parse(text, format_name)):
        assert isinstance(found, ParsedProbe | Refusal)
        if isinstance(found, Refusal):
            assert found.what
            assert found.where
            assert found.fix


@given(st.binary())
def test_any_bytes_are_text(raw):
    """Bytes that are no UTF-8 become U+FFFD."""
    text = decode(raw)
    assert isinstance(text, str)
    assert isinstance(parse(text), ParsedProbe | Refusal)


WHOLE = {
    "mx-smi-topo": texts.spaced(texts.islands(8, 4)),
    "nvidia-smi-topo": texts.tabbed(texts.islands(8, 8, inside="NV18")),
    "mx-smi-table": texts.mx_table("2.2.9", [("MetaX C500", "0000:0e:00.0", "Available")] * 2),
    "nvidia-smi-xml": texts.tray_xml(Tray()),
    "nvidia-smi-fabric": texts.tray_text(Tray()),
    "nodegroup": "group:\n- {name: d, kind: dragonfly, child: [n1, n2]}\n",
}


@pytest.mark.parametrize("format_name", WHOLE)
@given(data=st.data())
def test_cut_outputs_are_answered(format_name, data):
    """A pipe that broke, at any character."""
    text = WHOLE[format_name]
    cut = text[: data.draw(st.integers(0, len(text)))]
    assert isinstance(parse(cut), ParsedProbe | Refusal)
    assert isinstance(parse(cut, format_name), ParsedProbe | Refusal)


def noise(seed: int, alphabet: str) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=MEGABYTE))  # noqa: S311 - noise


NOISES = {
    "letters": noise(1, "GPUNICXMSY 0123\t\n|:=-ab{}\"[]'#*&!<>"),
    "unicode": noise(2, "\u0661\u00a0\u2028\ufffd\n x"),
    "one line": "GPU0 " * (MEGABYTE // 5),
    "empty lines": "\n" * MEGABYTE + "x",
    "rows": "GPU0 X\n" * (MEGABYTE // 7),
    "headers": "\tGPU0\tGPU1\tCPU Affinity\n" * (MEGABYTE // 25),
    "glued cells": "\tGPU0\tGPU1\nGPU0 " + "NV1" * (MEGABYTE // 3),
    "boxes": "| MX-SMI 2 |\n| Bus-id |\n" + "| \n" * (MEGABYTE // 3),
    "labels": "mx_device_type{" + 'a="' * (MEGABYTE // 3),
    "brackets": "[" * MEGABYTE,
    "dashes": "group:\n" + "- " * (MEGABYTE // 2),
    "elements": "<nvidia_smi_log>" + '<gpu id="1">x</gpu>' * (MEGABYTE // 20),
    "escapes": "\x1b[" * (MEGABYTE // 2),
    "csv": "name, a, b" * (MEGABYTE // 10),
    "sections": "Fabric\n State : x\n" * (MEGABYTE // 18),
}


GAP = " " * 15_000
GAPS = {
    "card": f"GPU#0{GAP}x{GAP}Available",
    "section": f"GPU 0:{GAP}x{GAP}(UUID: y",
    "link": f"GPU 0: x\n Link 0:{GAP}x{GAP}\n Link 1: 1 GB/s",
    "pair": f"    Fabric\n{GAP[:7000]}State{GAP[:7000]}x\n State : x",
    "rule": f"| MX-SMI 2 |\n| Bus-id |\n|{'-' * 15_000}x",
    "cell": f"| MX-SMI 2 |\n| Bus-id |\n| 1{GAP}x | y |",
    "row": f"\tGPU0\tGPU1\nGPU0{GAP}X{GAP[:900]}x\nGPU1{GAP}",
    "legend": f"\tGPU0\tGPU1\nGPU0 X MX\nNIC0{GAP}:",
    "kind": f"kind: x\n{GAP}x",
    "sample": f"mx_device_type{{{'} ' * 2000}{GAP[:9000]}x",
    "path": "/sys/class/infiniband/" * 700 + "\n/sys/class/infiniband/m/x: y",
    "address": "/sys/bus/pci/devices/" * 700 + "\n/sys/bus/pci/devices/0000:00:00.0/class: y",
    "columns": "uuid, name" + ", a b" * 3000 + "\x01",
}


@pytest.mark.parametrize("format_name", [None, *FORMATS])
@pytest.mark.parametrize("name", GAPS)
def test_wide_gaps_are_crossed_once(name, format_name):
    """Twenty lines of them: a pattern that tries every way to share a gap would never end."""
    text = "\n".join([GAPS[name]] * 20)
    assert isinstance(parse(text, format_name), ParsedProbe | Refusal)


@pytest.mark.parametrize("name", NOISES)
def test_a_megabyte_of_noise_is_answered(name):
    """No pattern runs away: each of these would hang a quadratic one."""
    assert isinstance(parse(NOISES[name]), ParsedProbe | Refusal)


@pytest.mark.parametrize("name", ["letters", "unicode", "empty lines", "escapes"])
def test_a_matrix_in_a_megabyte_of_noise_is_found(name):
    """A console log around the command's output."""
    host = texts.islands(8, 4)
    text = f"{NOISES[name]}\n{texts.spaced(host)}\n"
    assert codes_of(matrix_of(understood(text, "mx-smi-topo"))) == host.codes


def test_texts_beyond_the_limit_are_refused():
    """As bytes and as characters."""
    for found in (decode(b" " * (MAX_BYTES + 1)), parse(" " * (MAX_BYTES + 1))):
        assert isinstance(found, Refusal)
        assert str(MAX_BYTES) in found.what


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16"])
def test_what_windows_shells_write_is_read(codec):
    """Byte-order marks, UTF-16, carriage returns."""
    host = texts.islands(4, 4)
    raw = texts.spaced(host).replace("\n", "\r\n").encode(codec)
    text = decode(raw)
    assert isinstance(text, str)
    assert codes_of(matrix_of(understood(text))) == host.codes


def test_warnings_are_bounded():
    """A thousand odd things are told as twenty."""
    size = range(100)
    odd = tuple(tuple("X" if a == b else ("SYS", "PIX")[a > b] for b in size) for a in size)
    host = texts.Host(tuple(f"GPU{i}" for i in range(100)), (), odd)
    warnings = understood(texts.spaced(host)).warnings
    assert len(warnings) == 20
    assert warnings[-1] == "4931 more warnings of this kind"


@pytest.mark.parametrize(
    ("text", "words", "fix"),
    [
        ("bash: mx-smi: command not found", "mx-smi is not installed", "/opt/mxdriver/bin"),
        ("sh: 1: nvidia-smi: not found", "nvidia-smi is not installed", "NVIDIA runtime"),
        (
            'exec: "npu-smi": executable file not found in $PATH',
            "the command is not installed",
            "install the tool",
        ),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            "driver is not loaded",
            "modprobe nvidia",
        ),
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570",
            "different versions",
            "reboot",
        ),
        (
            "NVMLError_LibraryNotFound(12) | NVML Shared Library Not Found",
            "libnvidia-ml",
            "install",
        ),
        ("pynvml.NVMLError_DriverNotLoaded: Driver Not Loaded", "not loaded", "modprobe"),
        ("Failed to initialize NVML: Unknown Error", "device permissions", "restart the container"),
        ("Failed to initialize NVML: Timeout", "NVML does not come up", "as root"),
        (
            "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot",
            "does not answer",
            "drain the node",
        ),
        ("No devices were found", "sees no GPU", "lspci"),
        (
            "[WARN/control] unable to connect to socket /run/lldpd.socket: Connection refused",
            "reaches no lldpd",
            "start lldpd",
        ),
        ("OSError: libmxsml.so: cannot open shared object file", "libmxsml.so", "MetaX driver"),
        ("mxSmlInit failed: no device", "does not come up", "lsmod"),
        ("cat: /dev/mxcd: Permission denied", "not permitted", "root"),
    ],
)
def test_complaints_of_tools_say_what_to_do(text, words, fix):
    """They are never read as a host without GPUs, whatever format was asked for."""
    assert recognise(text) == "complaint"
    for refusal in (refused(text), refused(text, "nvidia-smi-topo")):
        assert words in refusal.what
        assert fix in refusal.fix


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "CA 9 1 0xb83fd20300c00110 4x NDR - SW 3 9 0xfc6a1c0300a00100 ('a' - 'b')",
            "ibnetdiscover-ports",
        ),
        ('Ca\t: 0xb83fd20300c00110 ports 1 "gpu-01 mlx5_0"', "ibnetdiscover-list"),
        ('CA: gpu-12 HCA-2:\n  0xb8 9 1[  ] ==( 4X Active/ LinkUp)==> 3 9[  ] "x"', "iblinkinfo"),
        (
            'Errors for 0xfc6a1c0300a000c0 "leaf"\n  Link info: 3 4[  ] ==( 1X )==> 2 1[ ] "x"',
            "infiniband-errors",
        ),
        ("# Port counters: Lid 1 port 1 (CapMask: 0x1200)", "infiniband-errors"),
        ("lldp.eth0.via=LLDP", "lldp-text"),
        ('<?xml version="1.0"?>\n<lldp label="LLDP neighbors">\n</lldp>', "lldp-text"),
        ("CA 'mlx5_0'\n\tCA type: MT4129", "ibstat"),
        ("Infiniband device 'mlx5_0' port 1 status:", "ibstatus"),
        ("3b:00.0 3D controller [0302]: NVIDIA Corporation GA100 (rev a1)", "lspci"),
        ("available: 2 nodes (0-1)", "numactl"),
        ("| npu-smi 24.1.rc1    Version: 24.1.rc1 |", "npu-smi-table"),
        ('{"super_pod_list":[{"super_pod_id":"0"}]}', "hccl-rank-table"),
        ('{"ManualResetDevs":[{"CardId":1}]}', "ascend-reset-info"),
        (" \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n", "nvidia-smi-p2p"),
        ("| NVIDIA-SMI 570.124.06   Driver Version: 570.124.06 |", "nvidia-smi-table"),
        ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1182579c)", "nvidia-smi-list"),
        ("uuid, fabric.clusterUuid, fabric.cliqueId\nGPU-1, a, 2", "nvidia-smi-csv"),
        ("# gpu    pwr  gtemp  mtemp", "nvidia-smi-monitor"),
        ("dev, die, hottemp, power", "mx-smi-monitor"),
        ("  METAXLINK PORTS                      4,5,6", "mxvs"),
        ("2025-04-02 02:59:37 GpuMonitor initialize success", "mx-exporter-log"),
        (f"{texts.BANNER}\nAttached GPUs : 8\nGPU#0  MXC500\n    ECC Errors", "mx-smi-log"),
        ('[{"manufacturer": "metax", "index": 0}]', "gpustack-json"),
        ('{"fabric_states":[{"clique_id":4026}]}', "gpud-fabric-state"),
        ('[{"DomainUUID": "3fbfc98b"}]', "nmx-compute-nodes"),
        ("PPU 0: PPU (UUID: GPU-019ea108)\n  Link 0: Remote Device 00000001:CE:00.0", "ppu-smi"),
        ("     PPU0  PPU1  CPU Affinity\n PPU0  X  ICN2  0-47\n PPU1  ICN2  X  0-47\n", "ppu-smi"),
        ("     PPU0  PPU1\n PPU0  X  OK\n PPU1  OK  X\n", "ppu-smi"),
        ("| GPU ID: 0  | Topology Information |\n| To GPU 1 | Connected via NVLINK |", "dcgmi"),
        ("| mygroup    | Topology Information |\n| NUMA Optimal | True |", "dcgmi"),
        ("+---+\n|  NvLink Link Status  |\n+---+\nGPUs:\n    gpuId 0:\n        U U", "dcgmi"),
        ("| Device ID | Topology Information |\n| 0 | Local CPU List: 0-23 |", "xpu-smi"),
        ("     GPU 0/0|GPU 0/1|CPU Affinity\nGPU 0/0 |S      |MDF    |0-23", "xpu-smi"),
        ("\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tMT2\t0-63\nGPU1\tMT2\tX\t0-63\n", "mthreads-gmi"),
        ("=========== Weight between two GPUs ===========", "rocm-smi"),
        ("       GPU0   GPU1\nGPU0   0      XGMI\nGPU1   XGMI   0\n", "rocm-smi"),
        ("GPU[0]   : (Topology) Numa Affinity: 0", "rocm-smi"),
        ("NUMA BW TABLE:\n     0000:0c:00.0\n0000:0c:00.0 N/A", "rocm-smi"),
        ('[{"gpu": 0, "links": [{"gpu": 1, "link_type": "XGMI"}]}]', "rocm-smi"),
        ("| AMD-SMI 25.5.1+41065ee  |", "rocm-smi"),
        ("====== System Management Interface ======\nHCU  Temp  AvgPwr", "hy-smi"),
        ("DCU[0]\t\t: Card Series: K100_AI", "hy-smi"),
        ("|  IX-ML: 4.4.0   Driver Version: 4.4.0 |", "ixsmi"),
        ("GPU 0: Iluvatar BI-V150 (UUID: GPU-1182579c)", "ixsmi"),
        (
            "GPU 0: NVIDIA H100 (UUID: GPU-1182579c)\n\t Link 0, P2P is supported: true",
            "nvlink-capabilities",
        ),
        (
            "GPU 0: NVIDIA H100 (UUID: GPU-1182579c)\n\t Link 0: Data Tx: 12 KiB",
            "nvlink-counters",
        ),
        ("GPU 0: GH200 (UUID: GPU-1182579c)\n    C2C Link 0: 44.712 GB/s", "nvidia-smi-c2c"),
        ("GPU 0: GB200 (UUID: GPU-1182579c)\n\t NVLE: disabled", "nvlink-other"),
        ("Matching lldp records:\nHostname  Interface", "netq-show"),
        (
            "apiVersion: v1\nkind: ConfigMap\ndata:\n  nodegroup: |\n    group:\n",
            "topo-master-config",
        ),
        ("apiVersion: v1\nkind: Node\nmetadata:\n  name: n1", "kubernetes-object"),
        ('{"cpu": "8", "metax-tech.com/gpu": "8"}', "kubernetes-resources"),
        ("NAME      NODES      HEALTHY    Total", "kubectl-table"),
        ("# HELP DCGM_FI_DEV_SM_CLOCK SM clock", "prometheus-metrics"),
        ("SwitchName=leaf1 Nodes=n[1-4]", "slurm-topology"),
        ("/sys/class/net/eth0/operstate: up", "sysfs-listing"),
        ("| HCA | state | rate |\n|---|---|---|", "infiniband-table"),
    ],
)
def test_formats_that_are_known_and_not_read_are_named(text, name):
    """So that nobody searches for a mistake that they did not make."""
    assert recognise(text) == name
    refusal = refused(text)
    assert f"({name})" in refusal.what
    assert "does not read" in refusal.what


def test_text_of_no_format_is_told_what_is_read():
    """With its first line, to recognise the wrong file by."""
    refusal = refused("\n\nDear Sir or Madam,\n")
    assert "Dear Sir" in refusal.where
    assert all(name in refusal.fix for name in FORMATS)


def test_a_misspelt_format_is_told_the_nearest():
    """And all the others."""
    assert "did you mean mx-smi-topo?" in refused("x", "mx-smi-topology").fix
    assert "formats: ibnetdiscover" in refused("x", "qqq").fix


@pytest.mark.parametrize("format_name", WHOLE)
def test_whole_outputs_are_recognised(format_name):
    """The name and the reader agree."""
    assert recognise(WHOLE[format_name]) == format_name
