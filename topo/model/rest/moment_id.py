"""Moments as the API takes them: a generation, so long ago, or a time of day.

`7` and `7.5e0c21af` are generations, `10m` and `1d` are ago, `now` is now, and
`2026-11-22T14:02:11Z` is a time of RFC 3339.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from topo.model.durations import parse_duration
from topo.model.errors import Refusal
from topo.model.rest.generation_id import GenerationId

_TIME = (
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)
_AGO = r"[0-9]{1,9}(\.[0-9]{1,6})?(ms|[smhdw])"
PATTERN = rf"^(now|[0-9]{{1,18}}(\.[0-9a-f]{{8}})?|{_AGO}|{_TIME})$"
_COMPILED = re.compile(PATTERN, re.ASCII)
EXAMPLES = "10m (ago), 2026-11-22T14:02:11Z, a generation such as 7 or 7.5e0c21af, or now"


@dataclass(frozen=True, slots=True)
class MomentId:
    """One of the three is set: a generation, seconds before now, or Unix seconds."""

    generation: GenerationId | None = None
    ago_s: float | None = None
    unix_s: float | None = None

    @classmethod
    def read(cls, text: str) -> "MomentId | None":
        """Parse a moment; return None for a text that is none."""
        if _COMPILED.fullmatch(text) is None:
            return None
        if text == "now":
            return NOW
        if (generation := GenerationId.read(text)) is not None:
            return cls(generation=generation)
        ago_s = parse_duration(text)
        if not isinstance(ago_s, Refusal):
            return cls(ago_s=ago_s)
        try:
            return cls(unix_s=datetime.fromisoformat(text).timestamp())
        except ValueError:  # the 30th of February
            return None

    @property
    def is_now(self) -> bool:
        """Whether the present is meant."""
        return self.ago_s == 0

    def at_s(self, now_s: float) -> float | None:
        """Return the time in Unix seconds like `now_s`, None for a generation."""
        return self.unix_s if self.ago_s is None else now_s - self.ago_s


NOW = MomentId(ago_s=0.0)


def time_text(unix_s: float) -> str:
    """Return a time as `MomentId.read` takes it, rounded to the millisecond."""
    whole = datetime.fromtimestamp(round(unix_s, 3), UTC)
    return whole.isoformat(timespec="milliseconds").replace("+00:00", "Z")
