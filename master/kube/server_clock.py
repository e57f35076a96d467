"""The difference between this master's wall clock and that of the API servers.

Timestamps in objects are written by the servers' clock: with ours an hour ahead, a new job would
seem an hour old. A Date header has whole seconds (RFC 9110, section 5.6.7), so a difference below
two counts as none.
"""

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

LOOK_S = 10.0
"""Time between two comparisons: a clock that is stepped is noticed soon."""
LEAST_S = 2.0


class ServerClock:
    """The API servers' clock; ours before the first answer. `ahead_s` is ours minus theirs."""

    def __init__(
        self,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now, self._clock = now, clock
        self._looked_s: float | None = None
        self.ahead_s = 0.0

    def now(self) -> float:
        """Return Unix time by the clock of the API servers."""
        return self._now() - self.ahead_s

    def observe(self, date: str | None) -> None:
        """Compare the Date header of an answer; one that cannot be parsed is ignored."""
        now_s = self._clock()
        if date is None or (self._looked_s is not None and now_s - self._looked_s < LOOK_S):
            return
        try:
            server_s = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        self._looked_s = now_s
        found_s = self._now() - server_s
        self.ahead_s = found_s if abs(found_s) >= LEAST_S else 0.0
