"""CPU lists and NUMA nodes: by heading and plausibility, unknown where nobody can tell."""

import pytest

from tests.parse import texts, variants
from tests.parse.answers import matrix_of, understood
from topo.model.observation import ParsedProbe

NVIDIA = "CPU Affinity    NUMA Affinity   GPU NUMA ID"


def host(*tails: str, headings: str = NVIDIA) -> ParsedProbe:
    """GPUs joined by SYS with these texts behind their link cells."""
    names = [f"GPU{i}" for i in range(len(tails))]
    lines = ["        " + "".join(f"{name:<8}" for name in names) + headings]
    for row, tail in enumerate(tails):
        cells = [f"{'X' if row == column else 'SYS':<8}" for column in range(len(tails))]
        lines.append(f"{names[row]:<8}" + "".join(cells) + tail)
    return understood("\n".join(lines) + "\n" + texts.nvidia_legend())


def places(found: ParsedProbe) -> list[tuple[str, int | None]]:
    matrix = matrix_of(found)
    return list(zip(matrix.cpus, matrix.numa, strict=True))


GLUED = "0-31,64-950               N/A"
APART = "32-63,96-127    1               N/A"


def test_a_node_glued_to_the_cpus_is_cut_off_where_other_gpus_show_how():
    """0-31,64-950 would take the CPUs of the other socket."""
    found = host(GLUED, GLUED, APART, APART)
    assert places(found) == [("0-31,64-95", 0)] * 2 + [("32-63,96-127", 1)] * 2
    assert found.warnings == ("GPU0 and 1 more: 0-31,64-950 was read as 0-31,64-95 and 0",)


def test_a_node_glued_to_the_cpus_is_cut_off_where_cores_and_siblings_show_how():
    """Both ranges have 32 CPUs."""
    assert places(host(GLUED, GLUED)) == [("0-31,64-95", 0)] * 2


def test_a_glued_cell_that_may_be_cut_in_two_ways_is_unknown():
    """0-31 and node 0, or 0-3 and node 10."""
    found = host("0-310               N/A")
    assert places(found) == [("", None)]
    assert found.warnings == ("GPU0: 0-310 may be CPUs alone, or CPUs and a NUMA node",)


def test_a_list_that_another_gpu_has_whole_is_that_list():
    """Only its NUMA cell is empty."""
    found = host("0-63            0               N/A", "0-63                            N/A")
    assert places(found) == [("0-63", 0), ("0-63", None)]


@pytest.mark.parametrize("node", ["99999", "1024", "0-23,48-71"])
def test_what_no_numa_node_can_be_is_unknown(node):
    """Linux has at most 1024 nodes, and a CPU list is none."""
    found = host(f"0-31   {node}   N/A")
    assert places(found) == [("0-31", None)]
    assert found.warnings == (f"GPU0: {node} is not a NUMA node",)


@pytest.mark.parametrize("cell", ["0-31,20-40", "31-0", "0-99999", "a-b"])
def test_what_no_cpu_list_can_be_is_unknown(cell):
    """Lists ascend and end below the largest kernel's number of CPUs."""
    found = host(f"{cell}   0   N/A")
    assert places(found) == [("", None)]
    assert found.warnings == (f"GPU0: {cell} is not a list of CPUs",)


@pytest.mark.parametrize("tabs", [1, 2, 3])
def test_tabs_that_a_page_multiplied_move_no_cell(tabs):
    """As many cells as headings need no counting."""
    gap = "\t" * tabs
    text = (
        f"{gap}GPU0{gap}GPU1{gap}CPU Affinity{gap}NUMA Affinity\n"
        f"GPU0{gap}X{gap}NV1{gap}0-23,48-71{gap}0\nGPU1{gap}NV1{gap}X{gap}24-47,72-95{gap}1\n"
    )
    assert places(understood(text)) == [("0-23,48-71", 0), ("24-47,72-95", 1)]


def test_an_empty_cell_stays_empty_whatever_the_white_space():
    """GB200 in a cgroup prints no CPUs, and N/A where a node is unknown."""
    line = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    text = f"{line}GPU0\t X \tNV1\t\t0\t\tN/A\nGPU1\tNV1\t X \t0-35\t1\t\tN/A\n"
    for change in (str, variants.tabs_doubled, *variants.SQUEEZES):
        assert places(understood(change(text))) == [("", 0), ("0-35", 1)]


def test_a_cpu_list_is_not_taken_for_the_node_beside_an_empty_cell():
    """With one cell gone nobody can say which it was."""
    found = understood("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\tX\t\t0-3\t\tN/A\n")
    assert places(found) == [("", None)]
    assert found.warnings == ("GPU0: 0-3 is not a NUMA node",)


def test_cells_beyond_the_headings_are_told():
    """Which of them is the node?"""
    found = host("0-31   0   N/A   7   8")
    assert places(found) == [("", None)]
    assert "belong to no heading (7 8)" in found.warnings[0]


def test_headings_may_be_shortened():
    """NUMA and GPU NUMA, as in a table ruled by hand."""
    found = host("0-31  1     N/A", headings="CPU Affinity  NUMA  GPU NUMA")
    assert places(found) == [("0-31", 1)]
