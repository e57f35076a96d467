"""Whatever `topo` shows fits the terminal: nothing is cut, and nothing stands over its edge."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from docs.tables.commands import commands
from tests.cli import gang_samples, samples
from tests.cli.conftest import FakeMaster, Topo
from tests.cli.test_gpus import TWO
from tests.cli.test_gpus import document as gpus
from topo.cli.demo_directory import Demo, DemoDirectory
from topo.model.ids import NodeName
from topo.placement.booking.bookings_view import BookingsState
from topo.placement.booking.events import Pod, PodPhase, PodSeen
from topo.placement.booking.holds import Limits
from topo.placement.booking.log import Advanced, LogHeader, line_of
from topo.placement.capacity.host import Host
from topo.placement.job.policy import Policy
from topo.sim.probe_outputs.metax import smi_list
from topo.sim.worlds.presets import demo_world

Shown = Callable[..., list[str]]

WIDTHS = (80, 100, 160)
UUID = "4c4c4544-0047-3310-8051-b7c04f4c3932"
NODE = "node-3"
_NAME = re.compile(r"\b(?:node|dragonfly|switchbox|machine|job)-\w+\b|\brack4-u12\b")
_LONG = {
    CUT: f"{CUT}: {UUID} " + "is not what it was when it was seen last, which was so " * 3
    for CUT in (samples.CUT[1], "it sees no peer", "after 5 s", "unavailable: ECC", "HTTP 500")
}
PRINTED = {
    "topo demo",
    "topo demo cut",
    "topo demo fault",
    "topo demo finish",
    "topo demo heal",
    "topo demo jobs",
    "topo demo submit",
    "topo export",
    "topo gates open",
    "topo holds commit",
    "topo nodes clear",
    "topo nodes confirm",
    "topo nodes quarantine",
    "topo holds release",
    "topo sim clustermanager",
    "topo sim kubernetes",
    "topo sim workers",
    "topo wiring check",  # 80 columns, for paper, too
    "topo sim generate",
}
"""These print sentences that a terminal folds by itself, or have tests of their own."""


def long(document: Any) -> Any:
    """The document with names of 63 characters, UUIDs and reasons of 200."""
    if isinstance(document, dict):
        return {key: long(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [long(value) for value in document]
    if not isinstance(document, str):
        return document
    for words, more in _LONG.items():
        document = document.replace(words, more)
    document = re.sub(r"\b(?:GPU-aa|uuid-\d|c-1|b-1|ab:cd)\b", UUID, document)
    return _NAME.sub(lambda found: name(found[0]), document)


def name(short: str) -> str:
    return f"{short}-{'x' * (62 - len(short))}"


def wide_matrix() -> Any:
    """Eight GPUs and twelve NICs, whose matrix is wider than any terminal here."""
    names = [f"GPU{n}" for n in range(8)], [f"mlx5_{n}" for n in range(12)]
    cell = {"kind": "SYS", "code": "SYS", "count": 0}
    links = [[cell] * 20 for _ in range(20)]
    return {"gpus": names[0], "nics": names[1], "links": links, "numa": [0] * 20, "cpus": []}


JOB = ("place", "--pods", "4", "--gpus", "4", "--group-size", "12", "--explain")
CASES: dict[str, tuple[str, ...]] = {
    "topo tree": ("tree",),
    "topo nodes list": ("nodes",),
    "topo version": ("version",),
    "topo node": ("node", name(NODE)),
    "topo gpus": ("gpus", name(NODE), "-n", "2"),
    "topo diff": ("diff",),
    "topo history": ("history",),
    "topo doctor": ("doctor",),
    "topo place": JOB,
    "topo fragmentation": ("fragmentation",),
    "topo gangs": ("gangs",),
    "topo why": ("why", f"training/{name('job-demo')}"),
    "topo holds": ("holds",),
    "topo holds show": ("holds", "show", "h-1"),
    "topo demo status": ("demo", "status"),
    "topo sim place": ("sim", "place", "--nodes", "64", "--pods", "2"),
    "topo parse": ("parse", "--all", "SMI"),
    "topo sim replay": ("sim", "replay", "BOOKINGS"),
    "topo sim stream": ("sim", "stream", "--cluster", "1x2x2", "--jobs", "5"),
}


@pytest.fixture
def long_master(fake_master: FakeMaster) -> FakeMaster:
    """A master whose every answer is as long as can be."""
    inside = samples.inside()
    inside["node"]["matrix"] = wide_matrix()
    inside["node"]["neighbours"] = ["node-4", "node-5"]
    fake_master.document = long({**samples.troubled(), "node": inside["node"]})
    fake_master.changes = long(samples.changes(13))
    fake_master.placement = long({**samples.placement(), "hold": samples.held()})
    fake_master.holds = [long(samples.hold())]
    fake_master.broken["/v1/history"] = (200, json.dumps(samples.history()), {})
    waiting = {**gang_samples.waiting_gang(), "id": "2", "name": "job-wait", "text": samples.CUT[1]}
    fake_master.gangs = [long(gang_samples.gang(name="job-demo")), long(waiting)]
    fake_master.fragmentation = long(samples.fragmentation())
    fake_master.fragmentation["types"][0]["tiers"][0]["kind"] = name("machine-room")
    answer = long(gpus(TWO | {"why": samples.CUT[1]}, links=[["NV18"] * 4] * 4))
    fake_master.broken[f"/v1/nodes/{name(NODE)}/gpus"] = (200, json.dumps(answer), {})
    return fake_master


@pytest.fixture
def demo(long_master: FakeMaster, tmp_path: Path) -> Iterator[None]:
    """A running demo with a long name and a standing fault."""
    (tmp_path / name(NODE)).mkdir()
    (tmp_path / name(NODE) / "faults.txt").write_text(f"gpu 2 of {name(NODE)} fails\n")
    with DemoDirectory() as home:
        pids = {f"topo-worker {name(NODE)}": 4242}
        home.publish(Demo(long_master.url, str(tmp_path), (name(NODE),), "demo", pids))
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What commands read: a probe's output, and a log of bookings with one pod."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "smi").write_text(smi_list(demo_world().nodes[0]))
    pod = Pod(
        uid="1", namespace=name("space-1"), name=name(NODE), node=NodeName(name(NODE)), gpus=8
    )
    header = LogHeader(
        policy=Policy(),
        limits=Limits(),
        hosts=(Host(name=pod.node, gpus=8),),
        bookings=BookingsState(),
    )
    seen = PodSeen(pod, PodPhase.BOUND)
    step = Advanced.of(1.0, (seen,), header.start()[1].advance(1.0, seen))
    (folder / "bookings").write_bytes(line_of(header) + line_of(step))
    return {"SMI": str(folder / "smi"), "BOOKINGS": str(folder / "bookings")}


@pytest.fixture
def shown(topo: Topo, long_master: FakeMaster, files: dict[str, str]) -> Shown:
    """The lines that a command prints."""
    return lambda command, **env: _shown(
        topo, long_master, [files.get(w, w) for w in CASES[command]], env
    )


def _shown(topo: Topo, master: FakeMaster, words: list[str], env: dict[str, str]) -> list[str]:
    result = topo(*words, env={"TOPO_MASTER": master.url, "NO_COLOR": "1", **env})
    assert "Traceback" not in result.output
    assert not result.stderr
    return [line.rstrip() for line in result.stdout.splitlines()]


def test_every_command_is_tried_here_or_prints_sentences() -> None:
    known = {name for name, _ in commands()}
    assert CASES.keys() | PRINTED == known


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", sorted(CASES))
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(
    shown: Shown, command: str, width: int
) -> None:
    """What is folded is there in whole: without blanks and guides it is the text of a wide pipe."""
    lines = shown(command, COLUMNS=str(width))
    assert lines
    assert [line for line in lines if cell_len(line) > width] == []
    piped = shown(command)
    if not command.startswith("topo sim"):
        told = _letters("".join(lines))
        missing = {w for line in piped for w in line.split() if _letters(w) not in told}
        assert not missing


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize(
    "command", ["topo tree", "topo nodes list", "topo node", "topo doctor", "topo place"]
)
def test_in_a_pipe_a_name_and_a_reason_stand_on_one_line(shown: Shown, command: str) -> None:
    lines = shown(command)
    assert any(name("node-1") in line or name(NODE) in line for line in lines)
    if command != "topo place":
        reason = " ".join(long(samples.CUT[1]).split())
        assert any(reason in " ".join(line.split()) for line in lines)


def test_help_cuts_no_word_on_a_terminal_of_80_columns(topo: Topo) -> None:
    """A table whose other columns are too wide would leave no room for the address in one cell."""
    for command, _ in commands():
        told = topo(*command.split()[1:], "--help", env={"COLUMNS": "80"}).stdout
        assert "Options" in told
        assert [line for line in told.splitlines() if re.search(r"\w…\s*│$", line)] == [], command


def _letters(text: str) -> str:
    """The text without blanks and what a tree is drawn with."""
    return re.sub(r"[\s│├└─]", "", text)
