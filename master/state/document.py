"""The state as bytes: the judgement of discovery and the holds, as one JSON document."""

import json
import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from topo.discovery.memory import FORMAT, Memory
from topo.discovery.modes import Mode
from topo.model.ids import Generation
from topo.placement.booking.holds import FORMAT as HOLDS_FORMAT
from topo.placement.booking.holds import HoldsMemory


def _with_sound_times(memory: HoldsMemory) -> HoldsMemory:
    """A hold whose end never comes, or that JSON cannot say, would be kept for ever."""
    for hold in memory.holds:
        for name in ("created_s", "deadline_s"):
            value = getattr(hold, name)
            if value is not None and not 0 <= value < math.inf:
                message = f"{name} of hold {hold.id[:64]!r} is {value}, no Unix time"
                raise ValueError(message)
    return memory


_KeptHolds = Annotated[HoldsMemory, AfterValidator(_with_sound_times)]


@checked_dataclass(frozen=True)
class State:
    """Whose state this is, when it was judged (Unix time), and the state."""

    kind: Literal["topo-master-state"]
    saved_at_s: Annotated[float, Field(ge=0)]
    mode: Mode
    memory: Memory
    holds: _KeptHolds | None = None
    """Absent in documents of earlier versions. They are as of the last write, which may be later
    than `saved_at_s`: holds are written at once, the judgement every few seconds."""


_STATE = TypeAdapter(State)
_MEMORY = TypeAdapter(Memory)
_HOLDS: TypeAdapter[HoldsMemory] = TypeAdapter(_KeptHolds)


@dataclass(frozen=True, slots=True)
class Unusable:
    """A document that this master cannot take up, why, and the holds in it that are good."""

    reason: str
    holds: HoldsMemory | None = None


@dataclass(frozen=True, slots=True)
class SavedDiscovery:
    """The bulk of the document as JSON, made once: holds are written beside it many times."""

    saved_at_s: float
    generation: Generation
    text: bytes

    @classmethod
    def of(cls, memory: Memory, saved_at_s: float) -> "SavedDiscovery":
        """The judgement of that time; O(nodes)."""
        return cls(saved_at_s, memory.generation, _MEMORY.dump_json(memory))

    def with_holds(self, mode: Mode, holds: HoldsMemory) -> bytes:
        """The whole document; its keys are those of `State`."""
        head = {"kind": "topo-master-state", "saved_at_s": self.saved_at_s, "mode": mode.value}
        parts = (json.dumps(head).encode()[:-1], self.text, _HOLDS.dump_json(holds))
        return b'%s,"memory":%s,"holds":%s}' % parts


def decode(content: bytes, mode: Mode) -> State | Unusable:
    """The state in the document, if it is one of this mode and format.

    Holds are told even where the judgement is unusable: jobs run on them.
    """
    try:
        state = _STATE.validate_json(content)
    except ValidationError as error:
        finding = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in finding["loc"]) or "the document"
        reason = f"not a state file of this product: {finding['msg']} (at {where})"
    else:
        reason = _mismatch(state, mode)
        if not reason:
            return state
    return Unusable(reason, _holds_in(content))


def _mismatch(state: State, mode: Mode) -> str:
    """Why a well-formed state is not for this master; empty if it is."""
    if state.mode is not mode:
        return f"it was written in mode {state.mode}, this is mode {mode}"
    if state.memory.format != FORMAT:
        return f"it has format {state.memory.format}, this version reads {FORMAT}"
    if state.holds is not None and state.holds.format != HOLDS_FORMAT:
        return f"its holds have format {state.holds.format}, this version reads {HOLDS_FORMAT}"
    return ""


def _holds_in(content: bytes) -> HoldsMemory | None:
    """The holds of a document whose judgement is unusable; None where there are none."""
    try:
        document = json.loads(content)
        if document["kind"] != "topo-master-state":
            return None
        holds = _HOLDS.validate_json(json.dumps(document["holds"]))
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return holds if holds.format == HOLDS_FORMAT and holds.holds else None
