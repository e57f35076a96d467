"""What people see, character by character, at a width of 100 columns without colour.

After a change on purpose: `TOPO_GOLDEN=write python -m pytest tests/cli/render/test_render.py`,
then read the difference.
"""

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from tests.cli import samples
from topo.cli.client.connection import print_document
from topo.cli.client.decoding import decode
from topo.cli.client.placements import read_placement
from topo.cli.options import Output
from topo.cli.render import changes, findings, fragmentation, holds, node, placement, tree
from topo.cli.render.terminal import ASCII, UNICODE, Glyphs
from topo.diagnosis import diagnosis
from topo.diagnosis.finding import Finding
from topo.model.conditions.condition import Severity
from topo.model.durations import age
from topo.model.rest.changes import ChangeDocument
from topo.model.rest.fragmentation import FragmentationDocument
from topo.model.rest.placements import HoldDocument, HoldsDocument
from topo.model.rest.topology import TopologyDocument

GOLDEN = Path(__file__).parent / "golden"


def text(renderable: RenderableType, *, encoding: str = "utf-8", width: int = 100) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    Console(file=stream, width=width, highlight=False, markup=False, emoji=False).print(renderable)
    stream.flush()
    lines = raw.getvalue().decode(encoding).split("\n")
    return "\n".join(line.rstrip() for line in lines)


def as_topology(document: Any) -> TopologyDocument:
    return decode(TopologyDocument, document)


def as_change(document: Any) -> ChangeDocument:
    return decode(ChangeDocument, document)


def bare() -> Any:
    return {"generation": 0, "groups": []}


def lonely() -> Any:
    """A node whose worker was never heard, in no group."""
    entry = {**samples.node("node-9", "NotReady", gpus=0)}
    entry["reason"] = {"code": "no-peer", "text": "it sees no peer"}
    return {"generation": 3, "groups": [], "unplaced": [entry], "node": None}


JOB = {"pods": 4, "gpus_per_pod": 4, "group_size": 12}


def placed(document: Any, marks: Glyphs) -> RenderableType:
    """A placement's answer inside the healthy tree."""
    roots = as_topology(samples.healthy())["groups"]
    return placement.render_placement(read_placement(document), JOB, roots, marks, explain=True)


PICTURES: dict[str, Callable[[Glyphs], RenderableType]] = {
    "tree-healthy": lambda marks: tree.render_topology(as_topology(samples.healthy()), marks),
    "tree-troubled": lambda marks: tree.render_topology(as_topology(samples.troubled()), marks),
    "tree-bare": lambda marks: tree.render_topology(as_topology(bare()), marks),
    "node": lambda marks: node.render_node(as_topology(samples.inside()), "node-3", marks),
    "node-lonely": lambda marks: node.render_node(as_topology(lonely()), "node-9", marks),
    "changes": lambda marks: changes.render_changes(map(as_change, samples.changes()), marks),
    "findings": lambda marks: findings.render_findings(
        diagnosis.examine(as_topology(samples.troubled())), ["GET /health answers 200"], marks
    ),
    "place": lambda marks: placed({**samples.placement(), "hold": samples.held()}, marks),
    "place-refused": lambda marks: placed(samples.refusal(), marks),
    "holds": lambda marks: holds.render_holds(
        decode(HoldsDocument, {"holds": [samples.held()]}), marks
    ),
    "hold": lambda marks: holds.render_hold(
        decode(HoldDocument, samples.hold()), as_topology(samples.healthy())["groups"], marks
    ),
    "fragmentation": lambda marks: fragmentation.render_fragmentation(
        decode(FragmentationDocument, samples.fragmentation()), marks
    ),
    "fragmentation-shared": lambda marks: fragmentation.render_fragmentation(
        decode(FragmentationDocument, samples.sharing()), marks
    ),
    "node-shared": lambda marks: node.render_node(
        as_topology(samples.with_cards()), "node-4", marks
    ),
    "findings-none": lambda marks: findings.render_findings([], ["all 4 nodes are Ready"], marks),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_the_golden_text(name: str) -> None:
    drawn = text(PICTURES[name](UNICODE))
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("TOPO_GOLDEN") == "write":
        file.write_text(drawn, encoding="utf-8")
    assert drawn == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PICTURES)
def test_a_terminal_without_unicode_sees_every_line_too(name: str) -> None:
    drawn = text(PICTURES[name](ASCII), encoding="ascii")
    assert drawn.isascii()
    words = {word for word in text(PICTURES[name](UNICODE)).split() if word.isalnum()}
    assert words <= set(drawn.replace("|", " ").split())


def test_a_status_is_told_apart_without_colour() -> None:
    """The glyph differs and the word stands beside it."""
    lines = text(PICTURES["tree-troubled"](UNICODE)).splitlines()
    assert any("✗ node-3  NotReady" in line for line in lines)
    assert any("● node-4  8 GPUs" in line for line in lines)


def test_control_characters_of_a_name_never_reach_the_terminal() -> None:
    document = samples.healthy()
    evil = samples.node("node\x1b[2J\x9b2J\r", "NotReady", ("x", "why\x1b]0;title\x07"))
    document["groups"][0]["child"].append(evil)
    document["groups"][0]["name"] = "box\x1b[31m"
    drawn = text(tree.render_topology(as_topology(document), UNICODE))
    assert not {"\x1b", "\x9b", "\r", "\x07"} & set(drawn)
    assert "node\N{REPLACEMENT CHARACTER}[2J" in drawn


def test_square_brackets_of_a_name_are_text_and_not_markup() -> None:
    document = samples.healthy()
    document["groups"][0]["name"] = "[red]box[/red]"
    assert "[red]box[/red]" in text(tree.render_topology(as_topology(document), UNICODE))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (samples.changes()[0], "✗ node-3  Ready → NotReady  the link to node-4 is down"),
        (samples.changes()[2], "✗ node-7, node-8  conflict added: cloned-server-uuid"),
        ({"generation": 1, "what": "group-added", "subject": "d"}, "● d  group added"),
        (samples.changes()[1], "▲ node-9  switchbox-sample1/dragonfly-x → nowhere  it sees no"),
        ({"generation": 1, "what": "conflict-removed", "subject": "a"}, "● a  conflict removed"),
    ],
)
def test_a_change_is_one_line(change: Any, line: str) -> None:
    assert text(changes.render_change(as_change(change), UNICODE)).startswith(line)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "never"),
        (0.04, "0.0 s"),
        (9.99, "10.0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7200, "2 h"),
        (200000, "2 d"),
    ],
)
def test_an_age_reads_like_an_age(seconds: float | None, words: str) -> None:
    assert age(seconds) == words


def test_a_command_is_one_line_of_its_own_however_narrow_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "kubectl patch configmap conf --type=merge -p '" + "a b " * 40 + "'"
    found = Finding(Severity.WRONG, "code", "master", "what is wrong", f"add it:\n{command}")
    monkeypatch.setenv("COLUMNS", "40")
    print_document({}, Output.TABLE, lambda marks: findings.render_findings([found], [], marks))
    assert command in capsys.readouterr().out.splitlines()
