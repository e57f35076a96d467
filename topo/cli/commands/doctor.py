# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo doctor`: what is wrong with a cluster, and the next step for each finding."""

from typing import TYPE_CHECKING

import typer

from topo.cli.exits import Exit
from topo.cli.options import CaFile, MasterUrl, Output, OutputFormat, TokenFile

if TYPE_CHECKING:
    from topo.cli.diagnosis.checkup import Checkup


def doctor(
    *,
    output: OutputFormat = Output.TABLE,
    master: MasterUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Look for what is wrong with the master, its sources, workers and wiring."""
    from topo.cli.client import connection
    from topo.cli.diagnosis import checkup
    from topo.cli.render import findings

    to = connection.chosen(master, token_file, ca_file)
    result: Checkup = connection.ask(to, checkup.examine)
    connection.show(
        checkup.as_document(result),
        output,
        lambda glyphs: findings.report(result.findings, result.healthy, glyphs),
    )
    if result.is_wrong:
        raise typer.Exit(Exit.FINDING)
