"""The options that commands share, with their environment variables."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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
