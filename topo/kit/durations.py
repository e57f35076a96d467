"""Settings that are spans of time, written as `topo.model.durations` reads them."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from topo.model.durations import parse_duration
from topo.model.errors import Refusal


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    parsed = parse_duration(value)
    if isinstance(parsed, Refusal):
        raise ValueError(f"{parsed.what}; {parsed.fix}")  # noqa: TRY004 - pydantic wants ValueError
    return parsed


SPAN = BeforeValidator(_seconds)
"""Marks a field as a span of time, for those who print it."""
Seconds = Annotated[float, SPAN, Field(ge=0, le=10 * 366 * 86400)]
"""A setting in seconds that also accepts the units of `parse_duration`."""
