"""The options that commands share, with their environment variables."""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from functools import wraps
from inspect import Signature, signature
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from topo.cli.completion import group_names
from topo.cli.default_master import DEFAULT_MASTER
from topo.cli.exit_codes import usage
from topo.cli.render.safe import plain


class Output(StrEnum):
    """How a document is written: for people, or as the data itself."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputFormat = Annotated[
    Output,
    typer.Option("--output", "-o", help="table for people; json or yaml for programs."),
]
FabricName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The groups of another fabric, such as scale-out."),
]
GroupName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Only this group: its name, or its path with `/`.",
        autocompletion=group_names,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterOptions:
    """Which master to ask, and how: the fields are options of every command that asks one."""

    master: Annotated[
        str | None,
        typer.Option(
            envvar="TOPO_MASTER",
            metavar="URL",
            help=f"The master. Default: a running `topo demo`, else {DEFAULT_MASTER}.",
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="TOPO_TOKEN_FILE",
            metavar="FILE",
            help="File with the bearer token for the master.",
        ),
    ] = None
    ca_file: Annotated[
        Path | None,
        typer.Option(
            envvar="TOPO_CA_FILE",
            metavar="FILE",
            help="PEM certificates of the master's authority. Default: the system's.",
        ),
    ] = None


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of its dataclass parameters as options."""
    own = signature(command).parameters.values()
    kinds: dict[str, type] = {
        each.name: each.annotation
        for each in own
        if isinstance(each.annotation, type) and is_dataclass(each.annotation)
    }
    fields = {name: signature(kind).parameters for name, kind in kinds.items()}

    @wraps(command)
    def called(**given: Any) -> None:
        for name, kind in kinds.items():
            given[name] = kind(**{field: given.pop(field) for field in fields[name]})
        command(**given)

    shown = [fields[each.name].values() if each.name in fields else (each,) for each in own]
    called.__signature__ = Signature([*chain(*shown)])  # type: ignore[attr-defined] # typer reads it
    return called


def path_segment(name: str, what: str, fix: str) -> str:
    """Return the name as a part of a path; raise `CliError` where it would be another call."""
    if not name.strip(".") or not name.isprintable() or set(name) & set("/?#%\\ "):
        raise usage(f"that is no {what}", plain(name), fix)
    return name
