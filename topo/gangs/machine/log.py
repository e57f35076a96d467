"""A log of what happened to gangs, as JSON lines, and its replay: the same instructions, or where.

The first line is a `GangLogHeader` with the settings. Each line after it is a `GangsAdvanced`: the
time, the events, and the instructions that came of them. A log begins with a leader's term, so
nothing else is needed to go through it again.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from topo.gangs.machine.events import Event
from topo.gangs.machine.gangs import Gangs
from topo.gangs.machine.instructions import Instruction
from topo.gangs.machine.settings import GangSettings
from topo.model.errors import BrokenInvariantError, Refusal

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class GangLogHeader:
    """Where a log starts."""

    settings: GangSettings
    kind: Literal["topo-gang-log"] = "topo-gang-log"
    format: Literal[1] = FORMAT


@dataclass(frozen=True, slots=True)
class GangsAdvanced:
    """`Gangs.advance` was called at a time with these events, and gave these instructions."""

    now_s: Annotated[float, Field(allow_inf_nan=False)]
    events: tuple[Annotated[Event, Field(discriminator="kind")], ...]
    instructions: tuple[Annotated[Instruction, Field(discriminator="kind")], ...]
    kind: Literal["advanced"] = "advanced"


Entry = GangLogHeader | GangsAdvanced
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


@dataclass(slots=True)
class GangReplay:
    """Where a log led; `difference` is the first step that differs, empty where none does."""

    gangs: Gangs
    steps: int = 0
    difference: str = ""


def line_of(entry: Entry) -> bytes:
    """An entry as a line: equal entries are equal bytes, so what has no order gets one."""
    return json.dumps(asdict(entry), default=_ordered, separators=(",", ":")).encode() + b"\n"


def replay(lines: Iterator[bytes]) -> GangReplay | Refusal:
    """Goes through a log until its end or the first step that differs, validating after each.

    A file that is no such log is refused with the line. A last line that was not written to its end
    is left out.
    """
    done: GangReplay | None = None
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            break
        entry = _read(line, number)
        if isinstance(entry, Refusal):
            return entry
        if isinstance(entry, GangLogHeader):
            done = GangReplay(Gangs(entry.settings))
        elif done is not None:
            done.difference = _step(done, entry)
            if done.difference:
                done.difference = f"line {number}: {done.difference}"
                break
    return done or Refusal("the file has no whole line", "line 1", "give a log of gangs")


def _step(done: GangReplay, entry: GangsAdvanced) -> str:
    """What differs in a step; empty where it is the same."""
    done.steps += 1
    try:
        found = done.gangs.advance(entry.now_s, *entry.events)
        done.gangs.validate()
    except BrokenInvariantError as error:
        return str(error)
    for was, now in zip(entry.instructions, found, strict=False):
        if was != now:
            return f"it was {was}, replayed it is {now}"
    if len(found) != len(entry.instructions):
        return f"it was {len(entry.instructions)} instructions, replayed it is {len(found)}"
    return ""


def _read(line: bytes, number: int) -> Entry | Refusal:
    fix = f"give a log of gangs that topo-master wrote (format {FORMAT})"
    try:
        entry = _ENTRY.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part)[:64] for part in first["loc"])
        return Refusal(first["msg"], f"line {number} {where}".rstrip(), fix)
    if isinstance(entry, GangLogHeader) != (number == 1):
        what = "a log begins with its header" if number == 1 else "a second header"
        return Refusal(what, f"line {number}", fix)
    return entry


def _ordered(value: Any) -> list[Any]:
    """A set, which has no order, as a list that has one."""
    return sorted(value)
