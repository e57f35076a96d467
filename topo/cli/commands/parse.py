# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo parse`: what the parsers make of one probe output."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from topo.cli.exits import CliError, Exit, usage
from topo.cli.options import Output

MAX_INPUT_BYTES = 64 << 20
"""Parsers have limits of their own; this one keeps a device file from filling the memory."""


def parse(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A probe's output; `-` is stdin.")],
    *,
    format_name: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="Read it as this format, do not guess."),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="table is the same as json here.")
    ] = Output.JSON,
) -> None:
    """Say which format a probe output has, and print what is understood of it."""
    from topo.cli.client.connection import dumped
    from topo.cli.probe_document import probe_document
    from topo.cli.render.safe import plain
    from topo.model.errors import Refusal

    parsed = probe_document(_content(file), format_name)
    if isinstance(parsed, Refusal):
        raise CliError(Exit.USAGE, parsed)
    typer.echo(f"format: {parsed['format']}", err=True)
    for warning in parsed["warnings"]:
        typer.echo(f"warning: {plain(warning)}", err=True)
    print(dumped(parsed, Output.YAML if output is Output.YAML else Output.JSON), end="")


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
