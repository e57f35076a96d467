"""The states of the leader's sources for its followers: ages on the wire, times on each own clock.

They are sent beside the state, at each poll: sources succeed all the time, while an unchanged state
is not sent again.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass

from topo.model.forest import SourceState, SourceWarning
from topo.model.ids import SourceName

PATH = "/v1/replica/sources"
CABLES = "Topo-Cables"
"""The header with the leader's warning about the plan of its cables, percent-encoded."""
MAX_CABLES = 2000
"""Characters of that warning that are sent."""
MAX_BYTES = 4 << 20
MAX_SOURCES = 64
MAX_AGE_S = 1e9
STEADY_S = 5.0
"""Two answers whose times differ by less mean the same time: their delays differ, and each new time
would make documents anew."""

_AgeS = Annotated[float, Field(ge=0, le=MAX_AGE_S, allow_inf_nan=False)]


@dataclass(frozen=True)
class _Warning:
    code: str
    text: str
    age_s: _AgeS | None = None


@dataclass(frozen=True)
class _Told:
    source: SourceName
    good_age_s: _AgeS | None
    failing_age_s: _AgeS | None
    trouble: str
    fix: str
    warnings: tuple[_Warning, ...]
    detail: str = ""


_TOLD = TypeAdapter(Annotated[tuple[_Told, ...], Field(max_length=MAX_SOURCES)])


def encode(states: Iterable[SourceState], now_s: float) -> bytes:
    """Return the states as JSON; `now_s` is on their clock."""

    def age_s(at_s: float | None) -> float | None:
        return None if at_s is None else min(max(0.0, now_s - at_s), MAX_AGE_S)

    return _TOLD.dump_json(
        tuple(
            _Told(
                state.source,
                age_s(state.last_good_at_s),
                age_s(state.failing_since_s),
                state.trouble,
                state.fix,
                tuple(_Warning(w.code, w.text, age_s(w.since_s)) for w in state.warnings),
                state.detail,
            )
            for state in states
        )
    )


def decode(
    content: bytes, heard_s: float, before: Iterable[SourceState] = ()
) -> tuple[SourceState, ...]:
    """Return the states with times on the clock of `heard_s`, when they were as sent.

    Times that are near those of `before` stay unchanged. Raises `ValueError`.
    """
    known = {state.source: state.failing_since_s for state in before}

    def at_s(age_s: float | None) -> float | None:
        return None if age_s is None else heard_s - age_s

    return tuple(
        _steady(
            SourceState(
                each.source,
                at_s(each.good_age_s),
                at_s(each.failing_age_s),
                each.trouble,
                each.fix,
                tuple(SourceWarning(w.code, w.text, at_s(w.age_s)) for w in each.warnings),
                each.detail,
            ),
            known.get(each.source),
        )
        for each in _TOLD.validate_json(content)
    )


def _steady(state: SourceState, before_s: float | None) -> SourceState:
    since_s = state.failing_since_s
    if since_s is None or before_s is None or abs(since_s - before_s) > STEADY_S:
        return state
    return replace(state, failing_since_s=before_s)
