"""`nvidia-smi nvlink`: which links are up, and what an inactive one means."""

import pytest

from tests.parse.answers import items, refused, understood
from topo.facts import recognise
from topo.facts.nvidia.nvlink import far_link
from topo.model.ids import GpuUuid
from topo.model.machine import Gpu, LinkPort, PortState

SXM, PCIE = "NVIDIA B200", "NVIDIA H100 PCIe"
DEAD = "NVML: Unable to retrieve NVLink information as all links are inActive"


def status(*gpus: tuple[str, str]) -> str:
    """One (model, links) per GPU; a link is `+` or `-`, and `!` is a GPU without any."""
    lines: list[str] = []
    for index, (model, links) in enumerate(gpus):
        lines.append(f"GPU {index}: {model} (UUID: GPU-6968dfc2-d444-d92c-c36b-{index:012})")
        lines += [DEAD] if links == "!" else []
        lines += [
            f"\t Link {number}: {'26.562 GB/s' if sign == '+' else '<inactive>'}"
            for number, sign in enumerate(links)
            if sign in "+-"
        ]
    return "\n".join(lines)


def states(text: str) -> list[str]:
    """Per GPU the states of its ports: u(p), d(own), `.` for unused."""
    letters = {PortState.UP: "u", PortState.DOWN: "d", PortState.UNUSED: "."}
    found = understood(text, "nvlink-status")
    ports = items(found, LinkPort)
    return [
        "".join(letters[p.state] for p in ports if p.gpu == gpu.index) for gpu in items(found, Gpu)
    ]


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ([(SXM, "++++"), (SXM, "++++")], ["uuuu", "uuuu"]),
        ([(PCIE, "++--++"), (PCIE, "++--++")], ["uu..uu", "uu..uu"]),
        ([(SXM, "++++"), (SXM, "+-++")], ["uuuu", "uduu"]),
        ([(SXM, "++++"), (SXM, "----")], ["uuuu", "dddd"]),
        ([(SXM, "++++"), (SXM, "!")], ["uuuu", "dddd"]),
        ([(PCIE, "++++"), (PCIE, "----"), (PCIE, "!")], ["uuuu", "....", "...."]),
        ([(PCIE, "++++"), (PCIE, "++-+")], ["uuuu", "uudu"]),
        ([(SXM, "----"), (SXM, "----")], ["....", "...."]),
        ([(SXM, "++"), ("NVIDIA T400", "--")], ["uu", ".."]),
    ],
)
def test_what_an_inactive_link_means(gpus, expected):
    """Down only where another GPU of the model has it, and this one must or does have some."""
    assert states(status(*gpus)) == expected


def test_gpus_bring_their_identity_along():
    """Index, UUID and model stand in the section's first line."""
    gpus = items(understood(status((SXM, "++"), (SXM, "++"))), Gpu)
    assert gpus[1] == Gpu(1, GpuUuid("GPU-6968dfc2-d444-d92c-c36b-000000000001"), model=SXM)


def test_a_host_whose_links_are_all_inactive_has_gpus_and_no_ports():
    """nvidia-smi lists no numbers then."""
    found = understood(status((SXM, "!")))
    assert found.format == "nvlink-status"
    assert items(found, LinkPort) == []


REMOTE = """
GPU 0: NVIDIA H100 PCIe (UUID: GPU-6968dfc2-d444-d92c-c36b-000000000000)
\t Link 0: Remote Device 00000000:D5:00.0: Link 0
\t Link 1: Remote Device 00000000:D5:00.0: Link 6
GPU 1: NVIDIA H100 PCIe (UUID: GPU-6968dfc2-d444-d92c-c36b-000000000001)
\t Link 0: Remote Device 00000000:C2:00.0: Link 0
\t Link 1: <unidentifiable>
"""


def test_remote_ends_carry_the_true_link_number():
    """The tool renumbers its own links; the far end's number is the one to join by."""
    found = understood(REMOTE)
    assert found.format == "nvlink-remote"
    ports = items(found, LinkPort)
    assert [far_link(p.remote or "") for p in ports] == [
        ("0000:d5:00.0", 0),
        ("0000:d5:00.0", 6),
        ("0000:c2:00.0", 0),
    ]
    assert found.warnings == ("GPU 1 link 1: <unidentifiable>",)


def test_remote_addresses_alone_are_read_too():
    """`nvlink -p` prints no link number."""
    found = understood("GPU 0: NVIDIA A100 (UUID: GPU-6968dfc2)\n\t Link 0: 00000000:C3:00.0\n")
    (port,) = items(found, LinkPort)
    assert port.remote == "0000:c3:00.0"
    assert far_link(port.remote or "") is None


@pytest.mark.parametrize("format_name", ["nvlink-status", "nvlink-remote"])
def test_text_without_gpus_is_refused(format_name):
    """With the command that gives them."""
    assert "nvidia-smi nvlink" in refused("Link 0: 25 GB/s", format_name).fix


def test_links_of_another_vendor_are_not_nvlinks():
    """ppu-smi prints the same shape under another name."""
    text = REMOTE.replace("GPU 0", "PPU 0").replace("GPU 1", "PPU 1")
    assert recognise(text) == "ppu-smi"
