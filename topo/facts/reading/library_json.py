"""The door for the JSON of our own library probes: validated whole, or refused with a place."""

from typing import Annotated, TypeVar

from annotated_types import MaxLen
from pydantic import BaseModel, ConfigDict, ValidationError

from topo.facts.reading.text import shorten
from topo.model.errors import Refusal
from topo.model.machine import MAX_GPUS

Row = Annotated[tuple[int | None, ...], MaxLen(MAX_GPUS)]
Square = Annotated[tuple[Row, ...], MaxLen(MAX_GPUS)]
"""A matrix of raw numbers; None or a negative number where a call failed."""


class LibraryText(BaseModel):
    """Base of the two shapes. Unknown keys are ignored, so that neighbouring versions get along."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class FailedCall(LibraryText):
    """A library call that failed: for one device, or for the host (`device` null)."""

    call: str
    device: int | None = None
    code: int


T = TypeVar("T", bound=LibraryText)


def load(shape: type[T], text: str, probe: str) -> T | Refusal:
    """`text` as `shape`; refused with the path of the first field that does not fit."""
    try:
        return shape.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return Refusal(
            f"no text of the {probe} probe: {shorten(first['msg'], 120)}",
            ".".join(str(part) for part in first["loc"]) or "the whole text",
            f"record the {probe} probe again with `topo-worker --record`",
        )


def failures(calls: tuple[FailedCall, ...]) -> list[str]:
    """The failed calls as warnings."""
    return [f"{shorten(call.call, 60)}{_of(call)}: code {call.code}" for call in calls]


def _of(call: FailedCall) -> str:
    return "" if call.device is None else f" of device {call.device}"
