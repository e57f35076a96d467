"""The leader's monotonic clock on ours, so that holds keep their time over a takeover.

Result: for a reading of the leader's clock the time on our clock, never later than it was.

How: each answer carries what the leader's clock read when it was made. Asked for at a and made at
m, it says that our clock is ahead of the leader's by at least a - m. The largest of these bounds
holds for all readings of one boot.

Why that is right: each bound is too small by the time from the question to the making of the
answer. One answer may wait for seconds, at half a network or a leader that stands still, and a hold
would end by as much too soon; the quickest of the last answers decides. Clocks of two machines
drift apart by some 50 ppm at most, so that bounds of the last ten minutes are good to 30 ms.

Cost: O(`KEPT`) for an answer.

Example: asked at 100.0, made at 7.0: ahead by at least 93.0. Asked at 101.0, made after 5 s at
13.0: at least 88.0. What the leader did at 12.9 was at 105.9, not at 100.9.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from topo.placement.booking.holds import ClockReading

HEADER = "Topo-Clock"
"""The id of the leader's boot and its monotonic clock in seconds; absent in earlier versions."""
KEPT = 32
LASTS_S = 600.0


def header_value(boot: str, clock_s: float) -> str:
    """Return the value of the header."""
    return f"{boot} {clock_s:.6f}"


@dataclass(slots=True)
class LeaderClock:
    """The bounds from the last answers of one leader; another boot begins anew."""

    _boot: str = ""
    _bounds: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=KEPT))
    """When each was found, and by how much our clock is ahead at least."""

    def note(self, value: str, asked_s: float) -> None:
        """Take the header of an answer that was asked for then. Raises `ValueError`."""
        boot, _, clock = value.partition(" ")
        clock_s = float(clock)
        if not math.isfinite(clock_s):
            raise ValueError(f"{clock!r} is not a reading of a clock")
        if boot != self._boot:
            self._boot = boot
            self._bounds.clear()
        self._bounds.append((asked_s, asked_s - clock_s))

    def time_of(self, reading: ClockReading) -> float | None:
        """Return our time of a reading; None for one of another boot, or without any answer."""
        if not reading.boot or reading.boot != self._boot:
            return None
        newest_s, _ = self._bounds[-1]
        bounds = [ahead_s for at_s, ahead_s in self._bounds if newest_s - at_s <= LASTS_S]
        return reading.clock_s + max(bounds)
