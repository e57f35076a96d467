"""The options that commands share, with their environment variables."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from topo.cli.exits import usage
from topo.cli.render.safe import plain

DEFAULT_MASTER = "http://127.0.0.1:9001"


class Output(StrEnum):
    """How a document is written: for people, or as the data itself."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


MasterUrl = Annotated[
    str | None,
    typer.Option(
        "--master",
        envvar="TOPO_MASTER",
        metavar="URL",
        help=f"The master. Default: a running `topo demo`, else {DEFAULT_MASTER}.",
        show_default=False,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        envvar="TOPO_TOKEN_FILE",
        metavar="FILE",
        help="File with the bearer token for the master.",
        show_default=False,
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        envvar="TOPO_CA_FILE",
        metavar="FILE",
        help="PEM certificates that vouch for the master. Default: the system's.",
        show_default=False,
    ),
]
OutputFormat = Annotated[
    Output,
    typer.Option("--output", "-o", help="table for people; json or yaml for programs."),
]


def path_segment(name: str, what: str, fix: str) -> str:
    """The name as a part of a path; raises `CliError` where it would be another call."""
    if not name.strip(".") or not name.isprintable() or set(name) & set("/?#%\\ "):
        raise usage(f"that is no {what}", plain(name), fix)
    return name
