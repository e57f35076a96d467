"""`kubectl topo` is `topo` under the name of a plugin of kubectl."""

import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer

from tests.cli.conftest import FakeMaster
from topo.cli.exit_codes import Exit
from topo.cli.main import app

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
SCRIPT = EntryPoint(
    "kubectl-topo", PROJECT["project"]["scripts"]["kubectl-topo"], "console_scripts"
)


def _run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-topo", *words])
    with pytest.raises(SystemExit) as ended:
        SCRIPT.load()()
    return ended.value.code


def test_help_names_the_command_that_people_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "--help") == Exit.OK
    assert "Usage: kubectl topo [OPTIONS] COMMAND" in capsys.readouterr().out
    assert _run(monkeypatch, "holds", "show", "--help") == Exit.OK
    assert "Usage: kubectl topo holds show" in capsys.readouterr().out


def test_it_has_the_commands_of_topo_and_their_exit_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fake_master: FakeMaster
) -> None:
    _run(monkeypatch, "--help")
    shown = capsys.readouterr().out
    for name in typer.main.get_group(app).commands:
        assert f" {name} " in shown
    assert _run(monkeypatch, "tree", f"--master={fake_master.url}") == Exit.OK
    assert "switchbox-sample1" in capsys.readouterr().out
    assert _run(monkeypatch, "node", "nobody", f"--master={fake_master.url}") == Exit.REFUSED
    assert _run(monkeypatch, "tre") == Exit.USAGE


def test_it_offers_no_completion_which_the_shell_would_never_ask_it_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(monkeypatch, "--help")
    assert "--install-completion" not in capsys.readouterr().out
