"""Shell completion offers the names that the master knows, and never gets in the way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.cli import samples
from tests.cli.conftest import FakeMaster
from tests.support.waiting import CEILING_S
from topo.cli import completion, value_count
from topo.cli.main import app

Complete = Callable[..., Result]
NODE_1 = '{"kind": "node", "name": "node-1"}'


@pytest.fixture
def complete(fake_master: FakeMaster, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """Completes the last of the words as bash asks it to, however slow the machine is."""
    monkeypatch.setattr(completion, "TIMEOUT_S", CEILING_S)

    def ask(*words: str, **env: str) -> Result:
        line = {"COMP_WORDS": " ".join(("topo", *words)), "COMP_CWORD": str(len(words))}
        env = {"TOPO_MASTER": fake_master.url, "_TOPO_COMPLETE": "complete_bash", **line, **env}
        return CliRunner().invoke(app, [], env=env, prog_name="topo")

    return ask


@pytest.mark.parametrize("command", ["node", "gpus"])
def test_nodes_are_offered_by_their_beginning(complete: Complete, command: str) -> None:
    assert complete(command, "no").stdout.split() == ["node-1", "node-2", "node-3", "node-4"]
    assert complete(command, "node-3").stdout.split() == ["node-3"]
    assert complete(command, "other").stdout.split() == []


def test_nodes_in_no_group_are_offered(complete: Complete, fake_master: FakeMaster) -> None:
    fake_master.document = samples.troubled()
    outside = samples.troubled()["unplaced"][0]["name"]
    assert outside in complete("node", "").stdout.split()


def test_groups_of_all_tiers_are_offered(complete: Complete) -> None:
    offered = complete("tree", "--group", "").stdout.split()
    assert "switchbox-sample1" in offered
    assert any(name.startswith("dragonfly-") for name in offered)
    assert not any(name.startswith("node-") for name in offered)


def test_the_master_that_the_line_names_is_asked(
    complete: Complete, fake_master: FakeMaster
) -> None:
    there = f"127.0.0.1:{fake_master.port}"
    offered = complete("node", "--master", there, "", TOPO_MASTER="http://127.0.0.1:1")
    assert "node-1" in offered.stdout


def test_no_token_travels_for_a_completion(
    complete: Complete, fake_master: FakeMaster, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("s3cret")
    assert "node-1" in complete("node", "", TOPO_TOKEN_FILE=str(tmp_path / "token")).stdout
    assert "Authorization" not in fake_master.asked[-1].headers


@pytest.mark.parametrize(
    "answer",
    [
        (500, "{}", {}),
        (200, "no JSON", {}),
        (200, "[1]", {}),
        (200, '{"groups": [{"name": 7}], "unplaced": []}', {}),
        (302, "", {"Location": "http://127.0.0.1:1/"}),
        (200, " " * 5000, {}),
        (200, f'{{"groups": [], "unplaced": [{NODE_1}], "x": [{",".join("1" * 200)}]}}', {}),
    ],
)
def test_an_answer_of_no_use_offers_nothing(
    complete: Complete,
    fake_master: FakeMaster,
    monkeypatch: pytest.MonkeyPatch,
    answer: tuple[int, str, dict[str, str]],
) -> None:
    monkeypatch.setattr(completion, "MAX_ANSWER_BYTES", 1000)
    monkeypatch.setattr(value_count, "MAX_VALUES", 100)
    fake_master.broken["/v1/topology"] = answer
    shown = complete("node", "")
    assert (shown.stdout.split(), shown.stderr, shown.exception) == ([], "", None)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[", "https://127.0.0.1:1", "x:y"])
def test_where_no_master_is_nothing_is_offered_and_nothing_said(
    complete: Complete, url: str
) -> None:
    shown = complete("node", "", TOPO_MASTER=url)
    assert (shown.stdout.split(), shown.stderr, shown.exception) == ([], "", None)


@pytest.mark.parametrize("name", ["$(reboot)", "a b", "a;b", "`id`", "-rf", "a\nb", "é", ""])
def test_a_name_that_a_shell_could_obey_is_not_offered(
    complete: Complete, fake_master: FakeMaster, name: str
) -> None:
    """The script of zsh evaluates what a completion prints."""
    node: Any = {"name": name, "kind": "node", "status": "Ready"}
    safe = {**node, "name": "node.good_1-a"}
    fake_master.document = {**samples.healthy(), "groups": [], "unplaced": [node, safe]}
    assert complete("node", "").stdout.split() == ["node.good_1-a"]
