"""`topo holds`: the list, one hold, and what a token may do with it."""

import json
from pathlib import Path

import pytest

from tests.cli import samples
from tests.cli.conftest import FakeMaster, Topo
from topo.cli.exit_codes import Exit
from topo.cli.render.words import remaining_time


def test_every_hold_is_a_row(topo: Topo, fake_master: FakeMaster) -> None:
    done = samples.held("h-2", key=None, namespace="", state="committed", expires_in_s=None)
    fake_master.holds.append(done)
    lines = [" ".join(line.split()) for line in topo("holds").stdout.splitlines()]
    assert "h-1 job-42 team-a ▲ held 4 pods of 4 GPUs in groups of 12" in lines[1]
    assert lines[1].endswith("3 in 10 min")
    assert "h-2 ● committed" in lines[2]
    assert lines[2].endswith("when released")


@pytest.mark.parametrize(
    ("rest_s", "words"),
    [
        (600.0, "10 min"),
        (599.7, "10 min"),
        (569.2, "9 min 30 s"),
        (3600.0, "1 h"),
        (5401.0, "1 h 30 min"),
        (3605.0, "1 h"),
        (86400 * 7.0, "7 d"),
        (0.4, "1 s"),
        (0.0, "0 s"),
    ],
)
def test_what_is_left_of_a_hold_is_told_as_it_was_set(rest_s: float, words: str) -> None:
    """`--hold 10m` answers `10 min`, though the answer took a few milliseconds."""
    assert remaining_time(rest_s) == words


def test_no_holds_are_said_to_be_none(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.holds = []
    shown = topo("holds")
    assert (shown.exit_code, shown.stdout) == (Exit.OK, "nothing is held\n")
    assert json.loads(topo("holds", "-o", "json").stdout) == {"holds": []}


def test_one_hold_is_shown_inside_the_tree(topo: Topo) -> None:
    shown = topo("holds", "show", "h-1")
    assert "h-1  ▲ held" in shown.stdout
    assert "▲1 node-3  tail" in shown.stdout
    assert "✗ node-2  node node-2 is cordoned" in shown.stdout
    assert json.loads(topo("holds", "show", "h-1", "-o", "json").stdout) == samples.hold()


@pytest.mark.parametrize(
    ("command", "call", "words"),
    [
        ("commit", ("POST", "/v1/holds/h-1/commit"), "h-1 is committed"),
        ("release", ("DELETE", "/v1/holds/h-1"), "h-1 is released"),
    ],
)
def test_a_hold_is_committed_and_released_with_the_token(
    topo: Topo, fake_master: FakeMaster, tmp_path: Path, command: str, call: object, words: str
) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    shown = topo("holds", command, "h-1", "--token-file", str(token))
    assert shown.exit_code == Exit.OK
    assert words in shown.stdout
    asked = fake_master.asked[-1]
    assert (asked.method, asked.path) == call
    assert asked.headers["Authorization"] == "Bearer s3cret"


@pytest.mark.parametrize("command", ["show", "commit", "release"])
def test_a_hold_that_is_gone_is_refused_in_the_masters_words(topo: Topo, command: str) -> None:
    shown = topo("holds", command, "h-9")
    assert shown.exit_code == Exit.REFUSED
    assert shown.stderr.splitlines() == [
        "topo: there is no such hold",
        "  at ID",
        "  next: it may have expired",
    ]


@pytest.mark.parametrize("name", ["..", "a/b", "a?b=c", "a b", "a\x1b", "%2e"])
def test_a_name_that_would_be_another_call_is_bad_usage(
    topo: Topo, fake_master: FakeMaster, name: str
) -> None:
    shown = topo("holds", "release", name)
    assert shown.exit_code == Exit.USAGE
    assert "topo holds" in shown.stderr
    assert fake_master.asked == []
