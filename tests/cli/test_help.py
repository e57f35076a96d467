"""`--help` of every command: examples that can be typed, and no types that say nothing."""

import shlex
from typing import Any

import pytest
import typer

from tests.cli.conftest import Topo
from topo.cli.examples import EXAMPLES
from topo.cli.exit_codes import Exit
from topo.cli.main import app

ROOT: Any = typer.main.get_command(app)
LINES = [(path, line) for path, lines in EXAMPLES.items() for line in lines]


@pytest.mark.parametrize(("path", "line"), LINES, ids=[line for _, line in LINES])
def test_an_example_is_of_its_command_and_parses(path: str, line: str) -> None:
    words = next(s for s in map(shlex.split, line.split("|")) if s[0] == "topo")[1:]
    words = words[: words.index(">")] if ">" in words else words
    command, below = ROOT, words
    while below and below[0] in getattr(command, "commands", {}):
        command, below = command.commands[below[0]], below[1:]
    if path:
        assert words[: len(path.split())] == path.split()
    command.make_context("topo", below, resilient_parsing=False)


def test_help_shows_the_examples_and_no_type_of_a_flag(topo: Topo) -> None:
    for path in ("", "nodes", "export", "demo fault", "why", "sim place"):
        shown = topo(*path.split(), "--help")
        assert shown.exit_code == Exit.OK
        words = " ".join(shown.stdout.replace("│", " ").split())
        for line in EXAMPLES[path]:
            assert line in words
        assert "<bool>" not in words
        assert "<list[str]>" not in words
        assert topo(*path.split(), "-h").stdout == shown.stdout


def test_every_command_of_people_has_an_example() -> None:
    """The tools for tests of the product itself have their own pages."""
    for name, command in ROOT.commands.items():
        below = getattr(command, "commands", {})
        for path in [f"{name} {child}" for child in below] or [name]:
            assert path in EXAMPLES or name == "sim", path
