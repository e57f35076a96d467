"""The device matrix: the same host comes back from whatever the white space did to it."""

import random
import re
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.parse import texts
from tests.parse.answers import codes_of, matrix_of, refused, understood
from tests.parse.texts import Host
from topo.facts import parse, recognise
from topo.model.errors import Refusal
from topo.model.machine import MAX_GPUS, Link, LinkKind, LinkMatrix

KNOWN = ("MX", "PIX", "PXB", "PHB", "NODE", "SYS", "ETH", "NA", "N/A", "NV1", "NV4", "NV12", "NV18")
ASCEND = ("HCCS", "HCCS_SW", "SIO", "UB")
UNKNOWN = ("XGMI", "C2C", "QPI", "PIXEL", "LINK+", "?")
PLACES = (("0-31,64-95", "0"), ("32-63", "1"), ("", "3"), ("0-71", "0,3-9,11-17"), ("0-7", "N/A"))
NUMA = {"0": 0, "1": 1, "3": 3, "0,3-9,11-17": 0, "N/A": None}


def matrix(text: str, format_name: str | None = None) -> LinkMatrix:
    """The one matrix in a text that must be readable."""
    return matrix_of(understood(text, format_name))


@st.composite
def hosts(draw, keys: tuple[str, ...] = KNOWN + ASCEND, gpu: str = "GPU") -> Host:
    """Symmetric matrices over GPUs and NICs, with and without affinities and NIC legends."""
    size, nics = draw(st.integers(1, 12)), draw(st.integers(0, 11))
    total = size + nics
    cells = draw(st.lists(st.sampled_from(keys), min_size=total**2, max_size=total**2))
    rows = tuple(
        tuple("X" if a == b else cells[min(a, b) * total + max(a, b)] for b in range(total))
        for a in range(total)
    )
    nic_word = draw(st.sampled_from(["NIC", "mlx5_"]))
    places = draw(
        st.one_of(
            st.just(()),
            st.lists(st.sampled_from(PLACES), min_size=size, max_size=size).map(tuple),
        )
    )
    legend = {}
    if nic_word == "NIC" and draw(st.booleans()):
        legend = {f"NIC{i}": f"mlx5_{i + 1}" for i in range(nics)}
    gpus = tuple(f"{gpu}{i}" for i in range(size))
    return Host(gpus, tuple(f"{nic_word}{i}" for i in range(nics)), rows, places, legend)


_GAP = re.compile(r"(?<=[A-Z0-9])[ \t]+(?=(?:NV|PIX|PXB|PHB|NODE|SYS|MX|X|NIC)[A-Z0-9]*\b)")


def glued(text: str, chance: random.Random) -> str:
    """The text with some of the white space between two cells gone, as old nvidia-smi lost it."""
    lines = []
    for line in text.split("\n"):
        label, tab, cells = line.partition("\t")
        cells = _GAP.sub(lambda gap: "" if chance.random() < 0.1 else gap.group(), cells)
        lines.append(label + tab + cells)
    return "\n".join(lines)


def dressed(text: str, chance: random.Random) -> str:
    """The text as terminals, shells and Windows hand it over."""
    lines = text.split("\n")
    at = next(i for i, line in enumerate(lines) if "GPU0" in line or "Phy-ID0" in line)
    lines[at] = f"\x1b[4m{lines[at]}\x1b[0m" if chance.random() < 0.5 else lines[at]
    if chance.random() < 0.5:
        lines.insert(0, "[root@gpu-1 ~]# nvidia-smi topo -m")
    return chance.choice(["\n", "\r\n"]).join(lines)


def expected_names(host: Host) -> tuple[str, ...]:
    return tuple(host.nic_names.get(nic, nic) for nic in host.nics)


@given(hosts(), st.randoms(use_true_random=False))
def test_a_matrix_with_tabs_comes_back(host, chance):
    """Glued cells, doubled tabs, empty affinity cells, NUMA lists and escapes change nothing."""
    found = matrix(dressed(glued(texts.tabbed(host), chance), chance), "nvidia-smi-topo")
    assert (found.gpus, found.nics, codes_of(found)) == (
        host.gpus,
        expected_names(host),
        host.codes,
    )
    if host.places:
        assert found.cpus == tuple(cpus for cpus, _ in host.places)
        assert found.numa == tuple(NUMA[numa] for _, numa in host.places)
    else:
        assert set(found.numa) == {None}
        assert set(found.cpus) == {""}


@given(hosts(), st.randoms(use_true_random=False))
def test_a_matrix_with_spaces_comes_back(host, chance):
    """mx-smi aligns its affinity cells, so even an empty one is placed."""
    text = dressed(texts.spaced(host), chance)
    assert recognise(text) == "mx-smi-topo"
    found = matrix(text)
    assert (found.gpus, found.nics, codes_of(found)) == (
        host.gpus,
        expected_names(host),
        host.codes,
    )
    if host.places:
        assert found.cpus == tuple(cpus for cpus, _ in host.places)
        assert found.numa == tuple(NUMA[numa] for _, numa in host.places)


@given(hosts(keys=KNOWN + UNKNOWN))
def test_codes_of_no_legend_are_kept_and_counted(host):
    """A future link is neither lost nor guessed."""
    found = matrix(texts.tabbed(host))
    assert codes_of(found) == host.codes
    strange = [code for row in host.codes for code in row if code in UNKNOWN]
    assert found.unknown_codes == len(strange)
    kinds = {link.code: link.kind for row in found.links for link in row}
    assert all((kinds[code] is LinkKind.UNKNOWN) == (code in UNKNOWN) for code in kinds)


@given(hosts(), st.data())
@settings(max_examples=50)
def test_cut_text_is_completed_or_refused_and_never_wrong(host, data):
    """Wherever the text ends, what is stated of GPUs is what the host has."""
    text = texts.tabbed(host)
    found = parse(text[: data.draw(st.integers(0, len(text)))])
    if isinstance(found, Refusal):
        return
    cut = matrix_of(found)
    assert set(cut.gpus) <= set(host.gpus)
    size = len(cut.gpus)
    assert codes_of(cut)[:size] == tuple(row[: size + len(cut.nics)] for row in host.codes[:size])


def test_counts_of_bonded_links_are_read():
    """NV18 is eighteen links."""
    found = matrix(texts.tabbed(texts.islands(2, 2, inside="NV18")))
    assert found.links[0][1] == Link(LinkKind.NVLINK, "NV18", 18)


def test_headers_wrapped_in_half_an_escape_are_headers():
    """Web pages drop the escape character and leave `[4m`."""
    text = texts.tabbed(texts.islands(4, 4, inside="NV12"))
    pasted = text.replace("\tGPU0", "\t[4mGPU0", 1).replace("GPU3\n", "GPU3[0m\n", 1)
    assert matrix(pasted).gpus == ("GPU0", "GPU1", "GPU2", "GPU3")


def test_a_page_that_lost_all_white_space_is_still_a_matrix():
    """The vocabulary cuts it; the affinity that cannot be cut is left out."""
    found = matrix(
        "GPU0GPU1GPU2CPU AffinityNUMA AffinityGPU NUMA ID\n"
        "GPU0XNODENODE0-310N/A\nGPU1NODEXNODE0-310N/A\nGPU2NODENODEX0-310N/A\n"
    )
    assert codes_of(found)[0] == ("X", "NODE", "NODE")
    assert found.numa == (None, None, None)


def test_expanded_tabs_show_an_empty_cpu_cell_as_a_gap():
    """In a cgroup nvidia-smi prints no CPUs; the NUMA node must not slip into their place."""
    host = Host(("GPU0", "GPU1"), (), (("X", "SYS"), ("SYS", "X")), (("", "1"), ("0-31", "0")))
    found = matrix(texts.tabbed(host).expandtabs())
    assert (found.cpus, found.numa) == (("", "0-31"), (1, 0))


def test_ascend_devices_and_links_share_the_grammar():
    """npu-smi names chips Phy-ID and links HCCS, HCCS_SW, SIO; it prints no affinity."""
    found = understood(
        "           Phy-ID12   Phy-ID13   Phy-ID14\n"
        "Phy-ID12   X          SIO        HCCS_SW\n"
        "Phy-ID13   SIO        X          HCCS\n"
        "Phy-ID14   HCCS_SW    HCCS       X\n"
    )
    assert found.format == "npu-smi-topo"
    assert [link.kind for link in matrix_of(found).links[0]] == [
        LinkKind.SELF,
        LinkKind.SIO,
        LinkKind.HCCS_SW,
    ]


def test_columns_in_mixed_order_are_put_gpus_first():
    """Rows and columns move together."""
    found = matrix("\tmlx5_0\tGPU0\tGPU1\nGPU0\tPIX\t X \tNV4\nGPU1\tSYS\tNV4\t X \n")
    assert (found.gpus, found.nics) == (("GPU0", "GPU1"), ("mlx5_0",))
    assert codes_of(found) == (("X", "NV4", "PIX"), ("NV4", "X", "SYS"))


def without_rows(text: str, *names: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith(names))


def test_one_lost_row_is_completed_from_its_column():
    """The tools print symmetric matrices, so nothing is invented."""
    host = texts.islands(8, 4)
    found = understood(without_rows(texts.spaced(host), "GPU6"))
    assert codes_of(matrix_of(found)) == host.codes
    assert found.warnings == ("row GPU6 is missing: completed from column GPU6",)


def test_two_lost_rows_are_refused_by_name():
    """Their link to each other was printed nowhere."""
    refusal = refused(without_rows(texts.spaced(texts.islands(8, 4)), "GPU6", "GPU7"))
    assert refusal.what == "row GPU6 is missing: 6 of 8 GPU rows are whole"
    assert "mx-smi topo -m" in refusal.fix


def test_lost_nic_rows_leave_the_gpu_rows():
    """How GPUs reach NICs stands in the GPU rows too."""
    host = Host(
        ("GPU0", "GPU1"),
        ("NIC0", "NIC1"),
        (("X", "NV4", "PIX", "SYS"), ("NV4", "X", "SYS", "PIX"), ("PIX", "SYS", "X", "SYS")),
    )
    text = texts.tabbed(Host(host.gpus, host.nics, (*host.codes, ("SYS",))))
    found = understood(text)
    assert codes_of(matrix_of(found)) == host.codes[:2]
    assert matrix_of(found).nics == ("NIC0", "NIC1")
    assert "NIC1 is the first" in found.warnings[0]


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        ("GPU0\t X \tNV4\nGPU1\tNV4\t X \n", "header row that names the columns", "line 1"),
        ("\tGPU0\tGPU1\nGPU0\tNV4\t X \nGPU1\tNV4\t X \n", "cells are shifted", "line 2"),
        ("\tGPU0\tGPU1\nGPU0\t X \tNV4\tSYS\nGPU1\tNV4\t X \n", "more link cells", "line 2"),
        ("\tGPU0\tGPU0\nGPU0\t X \tNV4\n", "column GPU0 appears twice", "line 1"),
        ("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU0\t X \tSYS\n", "appears twice and differs", "lines 2"),
        ("\tGPU0\tGPU1\tCPU Affinity\n", "row GPU0 is missing", "after line 1"),
        ("\tGPU0\tGPU1\nGPU0\tNV4\tNV4\nGPU1\tNV4\t X \n", "GPU0 has NV4 in its own", "line 2"),
        ("\tGPU0\nGPU0\t X \nGPU1\tNV4\n", "row GPU1 has no column", "line 3"),
        ("Attached GPUs : 8\n\tGPU0\nGPU0\t X \n", "8 GPUs are attached and the header", "line 2"),
        ("\tGPU0\tGPU1\nGPU0\t X\nGPU1\t", "has 1 of 2 link cells", "line 2"),
    ],
)
def test_matrices_that_contradict_themselves_are_refused(text, what, where):
    """With what, where and a fix."""
    refusal = refused(text)
    assert what in refusal.what
    assert refusal.where.startswith(where)
    assert refusal.fix


def test_more_gpus_than_a_host_can_have_are_refused():
    """The bound of the model is the bound of the parser."""
    assert "more than 128" in refused(texts.spaced(texts.islands(MAX_GPUS + 1, 4))).what


def test_asymmetric_links_are_told():
    """One side calls it NVLink, the other does not: a warning, not a guess."""
    found = understood("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tSYS\t X \n")
    assert found.warnings == ("GPU1 calls its link to GPU0 SYS, GPU0 calls it NV4",)


@pytest.mark.parametrize(
    ("a", "b", "first", "second"), [("GPU0", "NIC0", "PIX", "SYS"), ("NIC0", "NIC1", "PXB", "NODE")]
)
def test_rows_of_gpus_and_nics_that_contradict_each_other_are_told(a, b, first, second):
    """A GPU calls its NIC near and the NIC calls it far; and so of two NICs."""
    names = ("GPU0", "GPU1", "NIC0", "NIC1")
    said = {(a, b): first, (b, a): second}
    codes = tuple(
        tuple(
            "X" if x == y else said.get((x, y), "NV4" if "NIC" not in x + y else "NODE")
            for y in names
        )
        for x in names
    )
    found = understood(texts.tabbed(Host(names[:2], names[2:], codes)))
    assert found.warnings == (f"{b} calls its link to {a} {second}, {a} calls it {first}",)


@given(hosts(), st.data())
def test_any_pair_of_rows_that_contradict_each_other_is_told(host, data):
    """Whichever two devices: one cell of a symmetric matrix is another code."""
    names = host.names
    assume(len(names) > 1)
    row = data.draw(st.integers(0, len(names) - 1))
    column = data.draw(st.integers(0, len(names) - 1).filter(lambda at: at != row))
    other = data.draw(st.sampled_from(KNOWN).filter(lambda code: code != host.codes[row][column]))
    codes = [list(cells) for cells in host.codes]
    codes[row][column] = other
    found = understood(texts.tabbed(replace(host, codes=tuple(map(tuple, codes)))))
    told = [warning for warning in found.warnings if " calls it" in warning]
    assert len(told) == 1
    assert names[row] in told[0]
    assert names[column] in told[0]


def test_of_two_matrices_the_first_is_read():
    """A log of two runs is told as such."""
    text = texts.tabbed(texts.islands(2, 2, inside="NV4"))
    found = understood(text + text)
    assert "second matrix" in found.warnings[0]


def test_a_row_of_a_line_that_is_prose_is_passed_over():
    """Words that begin with a device's name are no row."""
    text = texts.tabbed(texts.islands(2, 2, inside="NV4"))
    assert matrix(text + "GPU0 is in slot 3\n").unknown_codes == 0


def test_a_gap_in_the_numbers_of_the_gpus_is_told():
    """nvidia-smi counts them from 0 without gaps."""
    found = understood(
        "\tGPU0\tGPU1\tGPU3\nGPU0\tX\tNV4\tPIX\nGPU1\tNV4\tX\tPIX\nGPU3\tPIX\tPIX\tX\n"
    )
    assert found.warnings == ("the header has 3 GPUs and not GPU2",)


@pytest.mark.parametrize("code", ["NV0", "NV999"])
def test_no_gpu_has_so_many_links(code):
    """Between 1 and 36 (nvml.h); another count is kept as printed and not believed."""
    found = understood(texts.tabbed(texts.islands(2, 2, inside=code)))
    assert matrix_of(found).links[0][1] == Link(LinkKind.UNKNOWN, code)
    assert code in found.warnings[0]


def test_names_glued_in_the_header_are_parted():
    """GPU7mlx5_0 is a GPU and a NIC."""
    text = (
        "\t    GPU0GPU1mlx5_0\tmlx5_2\tCPU Affinity\n"
        "GPU0\t X \tNV1\tPIX\tSOC\t0-19\nGPU1\tNV1\t X \tSOC\tPIX\t0-19\n"
        "mlx5_0\tPIX\tSOC\t X \tSOC\nmlx5_2\tSOC\tPIX\tSOC\t X \n"
    )
    found = matrix(text)
    assert (found.gpus, found.nics) == (("GPU0", "GPU1"), ("mlx5_0", "mlx5_2"))
    assert found.cpus == ("0-19", "0-19")
    assert found.links[0][3] == Link(LinkKind.SYSTEM, "SOC")


def test_the_links_of_the_oem_are_metaxlinks():
    """MarsLink, printed as HT."""
    found = understood(texts.spaced(texts.islands(8, 8, inside="HT")).replace("MetaX", "Mars"))
    assert found.format == "mx-smi-topo"
    assert matrix_of(found).links[0][7] == Link(LinkKind.METAXLINK, "HT")


@pytest.mark.parametrize(("code", "cpus"), [("NV1", "0-19"), ("NV12", "20-39"), ("NV1", "40-59")])
def test_a_link_code_glued_to_the_cpu_list_is_cut_where_the_other_end_says(code, cpus):
    """NV140-59 may be NV1 and 40-59, or NV14 and 0-59."""
    text = (
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
        f"GPU0\t X \t{code}{cpus}\t0\nGPU1\t{code}\t X \t{cpus}\t0\n"
    )
    found = understood(text)
    assert found.warnings == ()
    assert matrix_of(found).links[0][1].code == code
    assert matrix_of(found).cpus == (cpus, cpus)


def test_a_glued_link_code_that_two_ends_state_differently_is_unknown():
    """Nobody can say which it is."""
    found = understood("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV140-59\nGPU1\tNV18\t X \t0-59\n")
    assert matrix_of(found).links[0][1].kind is LinkKind.UNKNOWN
    assert matrix_of(found).cpus == ("", "0-59")
    assert found.warnings


def test_a_row_without_a_column_is_found_behind_any_number_of_other_lines():
    """A console that prints the kernel's messages does not hide a third GPU."""
    text = "\tGPU0\tGPU1\nGPU0\tX\tNV4\n" + "[12.3] NVRM: Xid 79\n" * 40
    refusal = refused(f"{text}GPU2\tNV4\tNV4\tX\nGPU1\tNV4\tX\n")
    assert refusal.where == "line 43"
    assert "folded" in refusal.what


@pytest.mark.parametrize("between", ["", "\n\n", "Legend:\n\n  X    = Self\n"])
def test_a_row_without_a_column_below_a_gap_is_told(between):
    """It may be of another output, so the matrix is read."""
    rows = "\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV4\tX\n\n"
    found = understood(f"{rows}{between}GPU2\tNV4\tNV4\tX\n")
    line = f"{rows}{between}".count("\n") + 1
    assert found.warnings == (f"line {line}: row GPU2 has no column, and was not read",)
