"""The table of the commands of `topo`: a row per command, with the first paragraph of its help."""

from collections.abc import Iterator
from typing import Any

import typer

from docs.tables.section import table
from topo.cli.main import app


def render() -> str:
    """Return the commands of `topo` as Markdown."""
    rows = ((f"`{name}`", _summary(command)) for name, command in commands())
    return table(("command", "what it does"), rows)


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command that can be run, with its full name."""
    yield from _below(typer.main.get_command(app), "topo")


def _below(group: Any, above: str) -> Iterator[tuple[str, Any]]:
    for part, command in group.commands.items():
        name = f"{above} {part}"
        is_group = hasattr(command, "commands")
        if not is_group or command.invoke_without_command:
            yield name, command
        if is_group:
            yield from _below(command, name)


def _summary(command: Any) -> str:
    paragraph, _, _ = command.help.partition("\n\n")
    return " ".join(paragraph.split()).removesuffix(".")
