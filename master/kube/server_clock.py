"""How far this master's wall clock is from that of the API servers, by the Date of their answers.

What the cluster says of times was written by their clock: by ours, an hour ahead, a job would be
an hour old when it comes. A Date has whole seconds (RFC 9110, section 5.6.7), so two are no
difference.
"""

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

LOOK_S = 10.0
"""Between two looks: clocks that are stepped are seen soon."""
LEAST_S = 2.0


class ServerClock:
    """The servers' time, ours where none was heard; `ahead_s` is how far ours is ahead."""

    def __init__(
        self,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now, self._clock = now, clock
        self._looked_s: float | None = None
        self.ahead_s = 0.0

    def now(self) -> float:
        """Unix time, as the API servers have it."""
        return self._now() - self.ahead_s

    def heard(self, date: str | None) -> None:
        """An answer with this Date came; one that makes no sense says nothing."""
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
