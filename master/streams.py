"""The limit of open event streams."""

from dataclasses import dataclass

import prometheus_client as prom


@dataclass(slots=True)
class Streams:
    """The number of open event streams; each holds a connection, so there is a limit."""

    limit: int
    gauge: prom.Gauge
    _open: int = 0

    def enter(self) -> bool:
        """Count a stream; return False when the limit is reached."""
        if self._open >= self.limit:
            return False
        self._open += 1
        self.gauge.set(self._open)
        return True

    def leave(self) -> None:
        """Uncount a stream."""
        self._open -= 1
        self.gauge.set(self._open)
