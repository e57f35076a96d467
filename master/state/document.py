"""The state as one JSON document: the judgement of discovery and the holds."""

import json
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from master.state.checks import (
    MAX_UNIX_S,
    first_finding,
    kept_holds,
    plain_json,
    text_flaw,
    typed,
)
from topo.discovery.memory import FORMAT, Memory
from topo.discovery.modes import Mode
from topo.model.ids import Generation
from topo.placement.booking.holds import HoldsMemory


@checked_dataclass(frozen=True)
class State:
    """The kept state: its owner, its mode, the Unix time of the judgement, and the holds."""

    kind: Literal["topo-master-state"]
    saved_at_s: Annotated[float, Field(ge=0, le=MAX_UNIX_S)]
    mode: Mode
    memory: Memory
    holds: HoldsMemory | None = None
    """Absent in documents of earlier versions. They are as of the last write, which may be later
    than `saved_at_s`: holds are written at once, the judgement every few seconds."""


_NOT_OURS = "not a state file of this product"
_STATE = TypeAdapter(State)
_MEMORY = TypeAdapter(Memory)
_HOLDS = TypeAdapter(HoldsMemory)


@dataclass(frozen=True, slots=True)
class Unusable:
    """A document that this master cannot restore as it is: why, and the part that is usable.

    `holds` are the unusable holds by id, and why.
    """

    reason: str
    rest: State | HoldsMemory | None = None
    holds: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SavedDiscovery:
    """The bulk of the document as JSON, encoded once: holds are written beside it many times."""

    saved_at_s: float
    generation: Generation
    text: bytes

    @classmethod
    def of(cls, memory: Memory, saved_at_s: float) -> "SavedDiscovery":
        """Return the judgement of that time. O(nodes)."""
        return cls(saved_at_s, memory.generation, _MEMORY.dump_json(memory))

    def with_holds(self, mode: Mode, holds: HoldsMemory) -> bytes:
        """Return the whole document; its keys are those of `State`."""
        return with_memory(self.about(mode, holds), self.text)

    def about(self, mode: Mode, holds: HoldsMemory) -> bytes:
        """Return the document without the judgement, for stores that keep the bulk apart."""
        head = {"kind": "topo-master-state", "saved_at_s": self.saved_at_s, "mode": mode.value}
        return b'%s,"holds":%s}' % (json.dumps(head).encode()[:-1], _HOLDS.dump_json(holds))


def with_memory(about: bytes, memory: bytes) -> bytes:
    """Return the whole document from its two parts."""
    return b'%s,"memory":%s}' % (about[:-1], memory)


def decode(content: bytes, mode: Mode) -> State | Unusable:
    """Return the state in the document, if it is one of this mode and format.

    The usable part is returned also where the rest is not: running jobs depend on the holds.
    """
    try:
        document = plain_json(content)
    except ValueError as error:
        return Unusable(f"{_NOT_OURS}: {error}")
    if not isinstance(document, dict) or document.get("kind") != "topo-master-state":
        return Unusable(f"{_NOT_OURS}: its kind is not topo-master-state")
    kept = kept_holds(document.pop("holds", None))
    state = _state_in(document, mode)
    if isinstance(state, State):
        state = replace(state, holds=kept.memory)
        return Unusable(kept.flaw, state, kept.unusable) if kept.flaw else state
    reason = f"{state}; {kept.flaw}" if kept.flaw else state
    rest = kept.memory if kept.memory and kept.memory.holds else None
    return Unusable(reason, rest, kept.unusable)


def _state_in(document: object, mode: Mode) -> State | str:
    """Return the state without its holds, or why this master cannot use it."""
    if wrong := text_flaw(document):
        return f"{_NOT_OURS}: {wrong}"
    try:
        state = typed(_STATE, document)
    except ValidationError as error:
        return f"{_NOT_OURS}: {first_finding(error)}"
    if state.mode is not mode:
        return f"it was written in mode {state.mode}, this is mode {mode}"
    if state.memory.format != FORMAT:
        return f"it has format {state.memory.format}, this version reads {FORMAT}"
    return state
