"""A log with several outputs: each is found, read, and has its lines."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse import texts, variants
from tests.parse.answers import matrix_of
from tests.parse.test_any_text import SCRAPS
from tests.parse.texts import Tray
from topo.facts import FORMATS, parse
from topo.facts import outputs as outputs_module
from topo.facts.outputs import MAX_OUTPUTS, MAX_PARTS, LogOutput, outputs
from topo.model.errors import Refusal
from topo.model.observation import ParsedProbe

HEAD = "GPU {}: NVIDIA H100 80GB HBM3 (UUID: GPU-6968dfc2-d444-d92c-c36b-00000000000{})"
LINKS = "\n".join(f"{HEAD.format(i, i)}\n\t Link 0: 26.562 GB/s" for i in range(2)) + "\n"
CAPABILITIES = f"{HEAD.format(0, 0)}\n\t Link 0, P2P is supported: true\n"
ERRORS = f"{HEAD.format(0, 0)}\n\t Link 0: Replay Errors: 0\n"
MATRIX = texts.tabbed(texts.islands(2, 2, inside="NV18"))
WIDER = texts.tabbed(texts.islands(4, 2, inside="NV12"))
MX_MATRIX = texts.spaced(texts.islands(8, 4))
P2P = " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n\nLegend:\n\n  OK = Status Ok\n"
TABLE = texts.mx_table("2.2.9", [("MetaX C500", "0000:0e:00.0", "Available")] * 2)
SYSFS = (
    "/sys/class/infiniband/mlx5_0/ports/1/state: 4: ACTIVE\n"
    "/sys/class/infiniband/mlx5_0/ports/1/phys_state: 5: LinkUp\n"
)
PIECES = {
    "nvlink-status": LINKS,
    "nvidia-smi-topo": MATRIX,
    "mx-smi-topo": MX_MATRIX,
    "mx-smi-table": TABLE,
    "nvidia-smi-xml": texts.tray_xml(Tray()),
    "nvidia-smi-fabric": texts.tray_text(Tray()),
    "sysfs-infiniband": SYSFS,
    "nvidia-smi-p2p": P2P,
    "nvlink-capabilities": CAPABILITIES,
    "nvlink-errors": ERRORS,
}


def found(text: str) -> tuple[LogOutput, ...]:
    told = outputs(text)
    assert isinstance(told, tuple), told
    return told


def place(text: str, piece: str) -> tuple[int, int]:
    """First and last line of a piece that stands once in the text."""
    first = text[: text.index(piece)].count("\n") + 1
    return first, first + piece.strip("\n").count("\n")


def test_a_rig_report_has_all_of_its_outputs():
    """Links, matrix and peer-to-peer in one file: the readable ones are read, the other named."""
    text = f"{LINKS}\n{MATRIX}\n{P2P}"
    links, matrix, peers = found(text)
    assert links.answer == parse(LINKS)
    assert isinstance(matrix.answer, ParsedProbe)
    assert matrix_of(matrix.answer).gpus == ("GPU0", "GPU1")
    assert isinstance(peers.answer, Refusal)
    assert "nvidia-smi topo -p2p" in peers.answer.what
    assert peers.answer.where == "lines {}-{}".format(*place(text, P2P))
    assert [(one.first_line, one.last_line) for one in (links, matrix, peers)] == [
        place(text, LINKS), place(text, MATRIX), place(text, P2P),
    ]  # fmt: skip


def test_two_hosts_in_one_file_are_two_outputs():
    """The second matrix is another host, not more rows of the first."""
    told = found(f"{MATRIX}\n\n{WIDER}")
    read = [output.answer for output in told if isinstance(output.answer, ParsedProbe)]
    assert [len(matrix_of(one).gpus) for one in read] == [2, 4]
    assert [one.warnings for one in read] == [(), ()]


@pytest.mark.parametrize("name", [name for name in PIECES if name in FORMATS])
def test_the_same_output_of_two_hosts_is_two(name):
    told = found(f"{PIECES[name]}\n\n{PIECES[name]}")
    assert [output.format for output in told] == [name, name]


def test_the_heads_of_a_tool_stay_with_its_outputs():
    """mx-smi prints its version and a banner above everything, also above what is cut out."""
    head = f"mx-smi  version: 2.2.9\n\n{texts.BANNER}\n\nAttached GPUs   : 2\n"
    bare = MX_MATRIX.removeprefix(f"{texts.BANNER}\n")
    told = found(f"{head}{TABLE}\n{MATRIX}\n{bare}\nEnd of Log\n{head}{TABLE}")
    formats = ["mx-smi-table", "nvidia-smi-topo", "mx-smi-topo", "mx-smi-table"]
    assert [output.format for output in told] == formats
    assert all(isinstance(o.answer, ParsedProbe) and not o.answer.warnings for o in told)


def test_sections_that_were_cut_out_of_a_log_are_found():
    """`nvidia-smi -q | grep -A9 Fabric` has no title."""
    sections = "    Fabric\n        State : Completed\n--\n    Fabric\n        State : N/A\n"
    told = found(f"{MATRIX}\n{sections}\n{LINKS}")
    formats = ["nvidia-smi-topo", "nvidia-smi-fabric", "nvlink-status"]
    assert [output.format for output in told] == formats
    assert told[1].answer == parse("\n" * (told[1].first_line - 1) + sections)


def test_another_option_of_the_same_tool_is_another_output():
    """GPU 0 that comes again begins it."""
    assert [o.format for o in found(LINKS + CAPABILITIES + ERRORS + LINKS)] == [
        "nvlink-status", "nvlink-capabilities", "nvlink-errors", "nvlink-status",
    ]  # fmt: skip


@given(st.lists(st.sampled_from(sorted(PIECES)), min_size=2, max_size=5, unique=True), st.data())
def test_outputs_in_any_order_are_all_found(names, data):
    """Between prompts, blank lines or nothing; each says the same as it does alone."""
    between = data.draw(
        st.sampled_from(["", "\n", "\n$ nvidia-smi\n", "\nroot@node-1:~# mx-smi\n"])
    )
    told = found(between.join(PIECES[name].rstrip("\n") + "\n" for name in names))
    assert [output.format for output in told] == names
    for output, name in zip(told, names, strict=True):
        alone = parse(PIECES[name])
        if isinstance(alone, ParsedProbe):
            assert isinstance(output.answer, ParsedProbe)
            assert output.answer.facts == alone.facts
    places = [(output.first_line, output.last_line) for output in told]
    assert places == sorted(places)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(places))


@pytest.mark.parametrize("name", PIECES)
def test_a_text_of_one_output_is_read_whole(name):
    """Nothing is cut from what its reader gets."""
    (only,) = found(PIECES[name])
    assert only.answer == parse(PIECES[name])
    assert only.format == name


def test_the_lines_in_refusals_and_warnings_are_those_of_the_file():
    """A cut matrix in the middle of a log is told by its own line."""
    cut = "\n".join(WIDER.splitlines()[:3]) + "\n"
    text = f"{LINKS}\n{cut}\n{MATRIX}"
    refusal = found(text)[1].answer
    assert isinstance(refusal, Refusal)
    assert refusal.where == f"after line {place(text, cut)[1]}"


def test_a_text_of_no_output_is_refused_as_ever():
    (only,) = found("Dear Sir or Madam,\n")
    assert only.answer == parse("Dear Sir or Madam,\n")


@pytest.mark.parametrize("width", [60, 72, 80, 100])
@pytest.mark.parametrize("fold", variants.FOLDS)
def test_a_folded_log_loses_no_output(fold, width):
    """Two hosts, links and peers through a narrow console: each is the same, warned of, refused."""
    places = (("0-47,96-143", "0"),) * 4 + (("48-95,144-191", "1"),) * 4
    host = texts.tabbed(replace(texts.islands(8, 8, inside="NV18"), places=places))
    long = LINKS.replace("H100 80GB HBM3", "RTX PRO 6000 Blackwell Server Edition")
    whole = found(f"{host}\n{long}\n{P2P}\n{host}")
    told = found(fold(f"{host}\n{long}\n{P2P}\n{host}", width))
    assert [output.format for output in told] == [output.format for output in whole]
    for output, plain in zip(told, whole, strict=True):
        if isinstance(output.answer, ParsedProbe) and not output.answer.warnings:
            assert output.answer == plain.answer


@given(st.lists(st.sampled_from(SCRAPS), max_size=40).map("".join))
def test_any_scraps_are_answered(text):
    """With places inside the text, in order, none over another."""
    told = outputs(text)
    if isinstance(told, Refusal):
        return
    lines = text.replace("\r", "\n").count("\n") + 1
    edges = [edge for output in told for edge in (output.first_line, output.last_line)]
    assert edges == sorted(edges)
    assert edges[0] >= 1
    assert edges[-1] <= lines


def test_more_outputs_than_are_read_are_told():
    """The rest is not passed over in silence."""
    told = found(f"{MATRIX}\n" * (MAX_OUTPUTS + 3))
    assert len(told) == MAX_OUTPUTS + 1
    last = told[-1].answer
    assert isinstance(last, Refusal)
    assert str(MAX_OUTPUTS) in last.what


def test_outputs_behind_more_beginnings_than_are_tried_are_told():
    """A thousand NICs before links and matrices: nothing behind them vanishes in another output."""
    nics = "".join(f"CA 'mlx5_{number}'\n\tCA type: MT4129\n" for number in range(MAX_PARTS))
    told = found(f"{nics}{MATRIX}\n{LINKS}\n{MATRIX}")
    assert [output.format for output in told] == ["ibstat", None]
    last = told[-1].answer
    assert isinstance(last, Refusal)
    assert last.where == f"from line {nics.count(chr(10)) + 1} on"


def test_many_outputs_behind_many_lines_are_told_and_not_read(monkeypatch):
    """Each is read with the lines before it, so a text of line ends would take half an hour."""
    monkeypatch.setattr(outputs_module, "MAX_LINES_BEFORE", 3_000)
    told = found("\n" * 1_000 + f"{MATRIX}\n" * 9)
    assert [output.format for output in told] == ["nvidia-smi-topo"] * 2 + [None]
    last = told[-1].answer
    assert isinstance(last, Refusal)
    assert last.where == f"from line {told[1].last_line + 2} on"
