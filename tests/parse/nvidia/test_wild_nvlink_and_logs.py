"""Outputs of NVLink tools, of vendors that are not read, and logs, as strangers posted them.

The files are not part of the repository; without them the tests are skipped. The truth of each is
in the index beside them.
"""

from pathlib import Path

import pytest

from tests.parse.answers import items, refused, understood
from tests.parse.nvidia.test_nvlink_errors import counted
from topo.facts import decode, parse, recognise
from topo.facts.outputs import outputs
from topo.model.errors import Refusal
from topo.model.machine import Gpu, LinkMatrix, LinkPort, PortState
from topo.model.observation import ParsedProbe

FOLDER = Path(__file__).resolve().parents[4] / "shared/data/probes/wild"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no recorded outputs at {FOLDER}")


def text_of(start: str) -> str:
    (path,) = FOLDER.glob(f"{start}.*")
    text = decode(path.read_bytes())
    assert isinstance(text, str)
    return text


def ports(found: ParsedProbe) -> tuple[int, int, int, int]:
    """How many are up and well, up and degraded, down, unused."""
    all_of = items(found, LinkPort)
    up = [port for port in all_of if port.state is PortState.UP]
    down = sum(port.state is PortState.DOWN for port in all_of)
    degraded = sum(bool(port.trouble) for port in up)
    return len(up) - degraded, degraded, down, len(all_of) - len(up) - down


@pytest.mark.parametrize(
    ("name", "gpus", "told", "warnings"),
    [
        ("W25b", 2, (8, 0, 0, 0), 0),
        ("W37", 2, (32, 4, 0, 0), 0),
        ("W39", 1, (0, 0, 0, 0), 0),
        ("W41", 1, (2, 0, 0, 0), 2),
        ("W60", 3, (1, 0, 0, 1), 1),  # 2 of the 12 links of an A100
        ("W61", 1, (0, 0, 0, 0), 0),
    ],
)
def test_the_links_of_a_posted_status(name, gpus, told, warnings):
    """Slow links are degraded, an elided list is warned of, a GPU without NVLink is no error."""
    found = understood(text_of(name))
    assert (found.format, len(items(found, Gpu))) == ("nvlink-status", gpus)
    assert ports(found) == told
    assert len(found.warnings) == warnings


@pytest.mark.parametrize(
    ("name", "format_name", "command", "instead"),
    [
        ("W07c", "nvlink-capabilities", "nvidia-smi nvlink -c", "nvidia-smi nvlink -s"),
        ("W38", "nvidia-smi-c2c", "nvidia-smi c2c -s", "nvidia-smi nvlink -s"),
        ("W76", "ixsmi", "ixsmi", "nodegroup.yaml"),
        ("W77", "hy-smi", "hy-smi", "nodegroup.yaml"),
    ],
)
def test_what_is_not_read_is_refused_by_its_command(name, format_name, command, instead):
    """With what to give in its place."""
    text = text_of(name)
    assert recognise(text) == format_name
    refusal = refused(text)
    assert command in refusal.what
    assert instead in refusal.fix


@pytest.mark.parametrize("step", [1, 7, 23])
def test_every_recorded_output_is_found_in_a_log_of_all(step):
    """Whatever stands before and behind it: each says what it says alone."""
    texts = [decode(path.read_bytes()) for path in sorted(FOLDER.parent.rglob("*.txt"))]
    alone: dict[str, ParsedProbe] = {}
    for text in texts:
        found = outputs(text) if isinstance(text, str) else text
        if isinstance(text, str) and isinstance(found, tuple) and len(found) == 1:
            answer = parse(text)
            alone |= {text: answer} if isinstance(answer, ParsedProbe) else {}
    read = list(alone)
    mixed = [read[place * step % len(read)] for place in range(len(read))]
    told = outputs("\n".join(text.rstrip("\n") + "\n" for text in mixed))
    assert isinstance(told, tuple)
    facts = [output.answer.facts for output in told if isinstance(output.answer, ParsedProbe)]
    assert facts == [alone[text].facts for text in mixed]


def test_a_rig_report_gives_its_links_and_its_matrix():
    """Two RTX 3090 with four links between them; the peer-to-peer matrix is named."""
    told = outputs(text_of("W25d"))
    assert isinstance(told, tuple)
    links, matrix, peers = told
    assert isinstance(links.answer, ParsedProbe)
    assert ports(links.answer) == (8, 0, 0, 0)
    assert isinstance(matrix.answer, ParsedProbe)
    (only,) = items(matrix.answer, LinkMatrix)
    assert (only.links[0][1].code, only.numa, only.cpus) == ("NV4", (0, 0), ("0-5", "0-5"))
    assert isinstance(peers.answer, Refusal)
    assert "-p2p" in peers.answer.what
    places = [(output.first_line, output.last_line) for output in told]
    assert places == [(1, 10), (12, 24), (26, 39)]


def test_two_hosts_in_one_file_are_both_read():
    told = outputs(text_of("W06c"))
    assert isinstance(told, tuple)
    read = [output.answer for output in told if isinstance(output.answer, ParsedProbe)]
    codes = [items(one, LinkMatrix)[0].links[0][1].code for one in read]
    assert codes == ["SYS", "NV18"]
    assert [(output.first_line, output.last_line) for output in told] == [(1, 19), (21, 39)]


def test_the_status_before_the_capabilities_is_read_and_they_are_named():
    told = outputs(text_of("W07"))
    assert isinstance(told, tuple)
    status, rest = told
    assert isinstance(status.answer, ParsedProbe)
    assert ports(status.answer) == (18, 0, 0, 0)
    assert status.last_line == 19
    assert isinstance(rest.answer, Refusal)
    assert "nvidia-smi nvlink -c" in rest.answer.what


def test_a_posted_h100_has_the_counters_that_are_shown_and_no_others() -> None:
    """Its links 2 to 16 were left out by who posted it: they have no counter, not zero errors."""
    text = text_of("W40")
    assert recognise(text) == "nvlink-errors"
    kinds = ("replay", "recovery", "crc")
    assert counted(text) == {(0, link, kind): 0 for link in (0, 1, 17) for kind in kinds}
    assert understood(text).warnings == ("line 10: the text is shortened here ([...])",)


def test_a_posted_v100_counts_what_it_shows_of_a_link_with_errors() -> None:
    """Of link 0 the post has the CRC errors alone; `No errors` is zero of every kind."""
    found = counted(text_of("W62"))
    assert {kind for gpu, link, kind in found if (gpu, link) == (2, 0)} == {"crc"}
    assert found[2, 0, "crc"] == 8814
    assert {count for key, count in found.items() if key != (2, 0, "crc")} == {0}
    assert {link for gpu, link, _ in found if gpu == 0} == set(range(6))
