"""Folded lines and other white space: the same answer, a warning, or a refusal; never silence.

The recorded outputs are not part of the repository; without them their tests are skipped.
"""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parse import texts, variants
from tests.parse.answers import codes_of, items, matrix_of, refused, understood
from tests.parse.test_matrix import hosts
from tests.parse.texts import Host, Tray
from topo.facts import decode, parse
from topo.model.errors import Refusal
from topo.model.machine import Gpu, GpuFabric, LinkMatrix, NetworkPort
from topo.model.observation import ParsedProbe

FOLDER = Path(__file__).resolve().parents[2].parent / "shared/data/probes"
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file()) if FOLDER.is_dir() else []
JOINED = "lines that a terminal or a mail folded were joined again"


def big_host() -> Host:
    """Two islands of four GPUs, and ten NICs: rows of 170 characters."""
    names = [f"GPU{i}" for i in range(8)] + [f"NIC{i}" for i in range(10)]

    def code(a: int, b: int) -> str:
        if a == b:
            return "X"
        return "NV18" if a < 8 and b < 8 and a // 4 == b // 4 else "SYS" if a < 8 else "NODE"

    size = range(len(names))
    rows = tuple(tuple(code(min(a, b), max(a, b)) if a != b else "X" for b in size) for a in size)
    places = (("0-31,64-95", "0"),) * 4 + (("32-63,96-127", "1"),) * 4
    legend = {f"NIC{i}": f"mlx5_{i}" for i in range(10)}
    return Host(tuple(names[:8]), tuple(names[8:]), rows, places, legend)


CARDS = [("MetaX C500", f"0000:{i:02x}:00.0", "Available") for i in range(8)]
LIST = "".join(
    f"GPU#{i}    MXC500      0000:0{i}:00.0   Available "
    f"(UUID: GPU-e702f06b-bbd6-bc06-5196-{i:012})\n"
    for i in range(4)
)
NVLINK = "".join(
    f"GPU {i}: NVIDIA H100 80GB HBM3 (UUID: GPU-6968dfc2-d444-d92c-c36b-{i:012})\n"
    + "".join(f"\t Link {link}: 26.562 GB/s\n" for link in range(18))
    for i in range(8)
)
SAMPLES = "".join(
    f'mx_memory_total{{deviceId="{i}",uuid="GPU-87ba9f62-d02e-0528-f19e-{i:012}",type="vram"}} '
    "67108864\n"
    for i in range(8)
)
PORTS = "".join(
    f"/sys/class/infiniband/mlx5_{i}/{line}\n"
    for i in range(8)
    for line in (
        "ports/1/state: 4: ACTIVE",
        "ports/1/phys_state: 5: LinkUp",
        f"device/realpath: /sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:1{i}:00.0",
    )
)
BUS = "".join(
    f"{'realpath ' if key == 'realpath' else ''}/sys/bus/pci/devices/0000:{i:02x}:00.0"
    f"{'' if key == 'realpath' else '/' + key}: {word}\n"
    for i in range(4)
    for key, word in (
        ("vendor", "0x10de"),
        ("class", "0x030200"),
        ("realpath", f"/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:{i:02x}:00.0"),
    )
)
OWN = {
    "matrix with spaces": texts.spaced(big_host()),
    "matrix with tabs": texts.tabbed(big_host()),
    "matrix of npu-smi": texts.tabbed(texts.islands(16, 8, inside="HCCS")).replace("GPU", "NPU"),
    **{f"table {v}": texts.mx_table(v, CARDS) for v in texts.TABLE_VERSIONS},
    "list": LIST,
    "nvlink": NVLINK,
    "query": texts.tray_text(Tray()),
    "query in XML": texts.tray_xml(Tray()),
    "metrics": SAMPLES,
    "InfiniBand": PORTS,
    "PCI": BUS,
}
"""Outputs of ours of every kind that is read by lines."""


def devices(probe: ParsedProbe) -> int:
    """How many GPUs and NICs are stated."""
    matrices = items(probe, LinkMatrix)
    gpus = [len(items(probe, Gpu)), *(len(matrix.gpus) for matrix in matrices)]
    return max(gpus) + len(items(probe, NetworkPort)) + sum(len(m.nics) for m in matrices)


def check_told(text: str, variant: str) -> None:
    """The variant says what the text says, or says that it does not."""
    whole, found = parse(text), parse(variant)
    if isinstance(found, Refusal):
        return
    assert isinstance(whole, ParsedProbe), "what is refused as it is, is refused in any shape"
    if (found.format, found.facts) != (whole.format, whole.facts):
        assert len(found.warnings) > len(whole.warnings)
    assert devices(found) >= devices(whole) or "GPUs are listed" in " ".join(found.warnings)


@pytest.mark.skipif(not FILES, reason=f"no recorded outputs at {FOLDER}")
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_recorded_output_that_is_folded_says_so(path):
    """At seven widths, as a terminal, `fold -s` and a mail fold it."""
    text = decode(path.read_bytes())
    assert isinstance(text, str)
    for fold in variants.FOLDS:
        for width in variants.WIDTHS:
            check_told(text, fold(text, width))


@pytest.mark.skipif(not FILES, reason=f"no recorded outputs at {FOLDER}")
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_recorded_output_in_other_white_space_says_the_same(path):
    """Tabs expanded and doubled, blanks behind lines, colours, CRLF; or a warning, or a refusal."""
    text = decode(path.read_bytes())
    assert isinstance(text, str)
    for change in (*variants.WHITE_SPACE, *variants.SQUEEZES):
        check_told(text, change(text))


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("fold", variants.FOLDS, ids=lambda fold: fold.__name__)
def test_an_output_that_is_folded_says_so(name, fold):
    """Never fewer devices in silence."""
    for width in variants.WIDTHS:
        check_told(OWN[name], fold(OWN[name], width))


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("width", [72, 80, 100])
def test_lines_that_a_terminal_folded_are_joined_again(name, width):
    """All that stands in the text is read, with a warning where a line was folded."""
    text = OWN[name]
    whole, found = understood(text), understood(variants.folded(text, width))
    assert found.facts == whole.facts
    longest = max(len(line) for line in text.expandtabs().split("\n"))
    assert all(warning == JOINED or "is cut" in warning for warning in found.warnings)
    assert longest > width or not found.warnings


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("change", variants.WHITE_SPACE, ids=lambda change: change.__name__)
def test_white_space_changes_nothing(name, change):
    """Not a device, not a place, no new warning."""
    whole, found = understood(OWN[name]), understood(change(OWN[name]))
    assert (found.facts, found.warnings) == (whole.facts, whole.warnings)


@pytest.mark.parametrize("name", ["matrix with spaces", "matrix with tabs", "matrix of npu-smi"])
def test_a_matrix_whose_lines_end_at_the_edge_of_a_screen_loses_no_device_in_silence(name):
    """There are rows without a column; affinities that are cut with their headings are unknown."""
    whole = matrix_of(understood(OWN[name]))
    for width in range(41, 170, 3):
        found = parse(variants.cut_off(OWN[name], width))
        if isinstance(found, ParsedProbe) and not found.warnings:
            assert codes_of(matrix_of(found)) == codes_of(whole)


def test_a_nic_without_its_name_is_told():
    """The legend is cut."""
    found = understood(texts.spaced(big_host()).replace("  NIC4: mlx5_4\n", ""))
    assert found.warnings == ("the NIC legend lacks 1 of 10 NICs (NIC4 is the first)",)


def test_half_a_uuid_is_told():
    """At the edge of the screen."""
    whole = texts.tray_text(Tray())
    found = understood(variants.cut_off(whole, 76))
    assert len(found.warnings) == 8, "four GPUs and four domains"


@given(
    hosts(),
    st.sampled_from([texts.tabbed, texts.spaced]),
    st.sampled_from(variants.FOLDS),
    st.integers(40, 170),
)
@settings(max_examples=60)
def test_any_matrix_that_is_folded_says_so(host, form, fold, width):
    """Whatever its devices and codes, whatever the width."""
    check_told(form(host), fold(form(host), width))


@given(hosts(), st.sampled_from((*variants.WHITE_SPACE, *variants.SQUEEZES)))
@settings(max_examples=60)
def test_any_matrix_in_other_white_space_says_the_same(host, change):
    """Or tells that it cannot."""
    for form in (texts.tabbed, texts.spaced):
        check_told(form(host), change(form(host)))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_no_line_is_joined_to_lose_a_count(size):
    """A short matrix below `Attached GPUs : 16`, which is the longest line of the text."""
    text = texts.spaced(texts.islands(size, size)).replace(texts.BANNER, "")
    refusal = refused(text.replace(f": {size}\n", ": 16\n").replace("Device link type", "Device"))
    assert f"16 GPUs are attached and the header names {size}" in refusal.what


@pytest.mark.parametrize(
    ("text", "damage"),
    [
        (LIST, ("\nGPU#1    MXC500      0000:01:00.0   Available (UUID: ", "\nGPU#1  MXC\n#")),
        (texts.mx_table("2.2.4", CARDS), ("Available            |\n+", "Available            \n+")),
        (texts.tray_text(Tray()), ("Status                            : Success\n", "...\n")),
        (PORTS, ("/sys/class/infiniband/mlx5_1/ports/1/state: 4: ACTIVE", "/sys/class/infini")),
    ],
)
def test_lines_that_are_damaged_and_were_not_folded_are_not_joined(text, damage):
    """A card without its closing bar is not unhealthy, a gap of dots is no state."""
    before, after = damage
    assert before in text
    found = understood(text.replace(before, after, 1))
    assert JOINED not in found.warnings
    assert all(gpu.healthy is not False for gpu in items(found, Gpu))
    assert {fabric.state for fabric in items(found, GpuFabric)} <= {Tray().state}


def test_two_headers_without_rows_between_are_refused():
    """The second one names the other half of the GPUs."""
    text = "\tGPU0\tGPU1\n\tGPU2\tGPU3\nGPU0\tX\tNV4\n\tNV4\tNV4\nGPU1\tNV4\tX\n\tNV4\tNV4\n"
    refusal = refused(text)
    assert "two headers follow each other" in refusal.what
    assert refusal.where == "lines 1 and 2"


@pytest.mark.parametrize(
    ("header", "rest"),
    [("GPU0\tGPU1\tNIC0", "NIC1\tCPU Affinity"), ("GPU0\tGPU1\tNIC0", "Affinity")],
)
def test_a_header_that_goes_on_below_is_refused(header, rest):
    """One of two NICs would be lost."""
    text = f"\t{header}\n{rest}\nGPU0\tX\tNV4\tPIX\nGPU1\tNV4\tX\tPIX\n"
    assert "lines are folded" in refused(text).what


@pytest.mark.parametrize("rest", ["NODE", "V18\tNV18", "ODE\t0-31,64-95\t0", "0-31", "\t0\t\tN/A"])
def test_rows_that_go_on_without_a_name_are_refused(rest):
    """Between rows, and below the last one."""
    text = "\tGPU0\tGPU1\nGPU0\tX\tNV18\n{0}GPU1\tNV18\tX\n{1}"
    for between, below in ((f"{rest}\n", ""), ("", f"{rest}\n")):
        refusal = refused(text.format(between, below))
        assert "lines are folded" in refusal.what
        assert "wider terminal" in refusal.fix


def test_other_lines_among_the_rows_are_told():
    """A kernel message on a serial console."""
    found = understood("\tGPU0\tGPU1\nGPU0\tX\tNV4\n[ 12.3] usb 1-1: new device\nGPU1\tNV4\tX\n")
    assert found.warnings == ("line 3, among the rows, is no row: [ 12.3] usb 1-1: new device",)
    assert matrix_of(found).gpus == ("GPU0", "GPU1")


def test_a_number_cut_at_the_edge_of_the_screen_is_joined():
    """67108864 is not 671088 KiB, and a cut UUID is no UUID."""
    line = SAMPLES.split("\n")[0]
    found = understood(variants.folded(SAMPLES, len(line) - 2))
    assert items(found, Gpu)[0].memory_bytes == 64 * 2**30
    assert found.warnings == (JOINED,)
    cut = understood(LIST.replace("-000000000000)", "-0000\n0000000)"))
    assert "line 1 is cut" in cut.warnings[0]


def test_a_link_number_cut_at_the_edge_of_the_screen_is_told():
    """Link 14 of the far end is not its link 1."""
    head = "GPU 0: NVIDIA H100 PCIe (UUID: GPU-6968dfc2-d444-d92c-c36b-6abe53445cb9)\n"
    found = understood(f"{head}\t Link 0: Remote Device 00000000:D5:00.0: Link 1\n4\n")
    assert found.warnings == ("line 3: '4' is not a whole line",)


def test_a_domain_cut_at_the_edge_of_the_screen_is_joined():
    """Half a cluster UUID would be a domain of its own."""
    found = understood(variants.folded(texts.tray_text(Tray()), 72))
    domains = {fabric.cluster_uuid for fabric in items(found, GpuFabric)}
    assert domains == {Tray().cluster}
