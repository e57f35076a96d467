"""What `topo wiring` compares: a plan from a file, and cables from dumps."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from topo.cli.exit_codes import CliError, Exit
from topo.diagnosis.wiring.seen import SeenCables, read_plan_or_dump, seen_in_dumps
from topo.facts.infiniband.dumps import read_dump
from topo.facts.plans.plan import CablePlan
from topo.kit.files import read_bounded
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump

_T = TypeVar("_T")
MAX_FILE_BYTES = 256 << 20
"""A dump of 10,000 hosts with 8 adapters has 60 MB."""


def plan_in(path: Path) -> CablePlan:
    """Return the plan of a file; of a dump it is what was seen then. Raises `CliError`."""
    return or_error(read_plan_or_dump(_text(path)), path)


def seen_in(paths: Sequence[Path]) -> SeenCables:
    """Return what the dumps of these files show. Raises `CliError`."""
    return seen_in_dumps([_dump(path, _text(path)) for path in paths])


def _text(path: Path) -> str:
    found = read_bounded(path, MAX_FILE_BYTES)
    if isinstance(found, Refusal):
        raise CliError(Exit.USAGE, found)
    return found.decode("utf-8", "replace").replace("\r", "")


def _dump(path: Path, text: str) -> FabricDump:
    """Return the dump of a file, which is of the time at which that was written."""
    try:
        written_at = path.stat().st_mtime
    except OSError:  # it was there a moment ago
        written_at = 0.0
    return replace(or_error(read_dump(text), path), made_at=written_at)


def or_error(found: _T | Refusal, path: Path) -> _T:
    """Return what was found; raise `CliError` with the file where it was refused."""
    if isinstance(found, Refusal):
        raise CliError(Exit.USAGE, Refusal(found.what, f"{path}, {found.where}", found.fix))
    return found
