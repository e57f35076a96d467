"""Durations as text: `10`, `0.5s`, `30m`, `1w`."""

import re

from topo.model.errors import Refusal

_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])?", re.ASCII)


def parse_duration(text: str) -> float | Refusal:
    """Return the seconds of a duration; a bare number is seconds. The units are the vendor's."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        return Refusal(
            f"{text!r} is not a duration",
            "value",
            "write a number and a unit: 30, 30s, 5m, 12h, 1w",
        )
    return float(match[1]) * _UNITS_S[match[2] or "s"]


def format_duration(seconds: float) -> str:
    """Return the shortest text of a duration for `parse_duration`: 604800 is `1w`."""
    for unit, size_s in reversed(_UNITS_S.items()):
        if seconds and seconds >= size_s and round(seconds / size_s, 6).is_integer():
            return f"{round(seconds / size_s)}{unit}"
    return f"{seconds:g}s"


def age(seconds: float | None) -> str:
    """Return an age as `0.4 s`, `12 s`, `3 min`, `2 h`, `4 d`; `never` for None."""
    if seconds is None:
        return "never"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit_s, name in ((86400, "d"), (3600, "h"), (120, "min")):
        if seconds >= unit_s:
            return f"{seconds // (60 if name == 'min' else unit_s):.0f} {name}"
    return f"{seconds:.0f} s"
