# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo parse`: what the parsers make of a probe output, or of every one in a log."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from topo.cli.exit_codes import CliError, Exit, usage
from topo.cli.options import Output, OutputFormat

MAX_INPUT_BYTES = 64 << 20
"""Of a dump of a fabric, as masters read it; other outputs have 10 MiB at most."""


def parse(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A probe's output; `-` is stdin.")],
    *,
    format_name: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="Read it as this format, do not guess."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every output of a log, each with its lines.")
    ] = False,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Say which format a probe output has, and show what is understood of it."""
    from topo.cli.client.connection import serialize
    from topo.cli.probe_document import chosen, document, documents, found_in
    from topo.cli.render import probe, terminal
    from topo.model.errors import Refusal

    found = found_in(_content(file), format_name)
    if isinstance(found, Refusal):
        raise CliError(Exit.USAGE, found)
    one = chosen(found)
    if isinstance(one.answer, Refusal) and not every:
        raise CliError(Exit.USAGE, one.answer)
    if output is Output.TABLE:
        console = terminal.out()
        picture = probe.render_outputs(
            found if every else (one,), terminal.glyphs(console), lines=len(found) > 1
        )
        console.print(picture, width=min(console.width, probe.COLUMNS))
    elif every or isinstance(one.answer, Refusal):
        print(serialize(documents(found), output), end="")
    else:
        told = document(one.answer)
        _tell(told)
        print(serialize(told, output), end="")
    if isinstance(one.answer, Refusal):
        raise typer.Exit(Exit.USAGE)


def _tell(document: dict[str, Any]) -> None:
    """Format and warnings on standard error, for who redirects the document."""
    from topo.cli.render.safe import plain

    typer.echo(f"format: {document['format']}", err=True)
    for warning in document["warnings"]:
        typer.echo(f"warning: {plain(warning)}", err=True)


def _content(file: Path) -> bytes:
    """The bytes of the file or of standard input; raises `CliError` where they cannot be had."""
    try:
        if str(file) == "-":
            content = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(MAX_INPUT_BYTES + 1)
    except OSError as error:
        raise usage(error.strerror or str(error), str(file), "name a file, or `-`") from None
    if len(content) > MAX_INPUT_BYTES:
        fix = "give the output of one probe"
        raise usage(f"more than {MAX_INPUT_BYTES >> 20} MiB", str(file), fix)
    return content
