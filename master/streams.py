"""How many event streams are open."""

from dataclasses import dataclass

import prometheus_client as prom


@dataclass(slots=True)
class Streams:
    """How many event streams are open; each holds a connection, so there is a limit."""

    limit: int
    gauge: prom.Gauge
    _open: int = 0

    def enter(self) -> bool:
        """Counts one in; False when the limit is reached."""
        if self._open >= self.limit:
            return False
        self._open += 1
        self.gauge.set(self._open)
        return True

    def leave(self) -> None:
        """Counts one out."""
        self._open -= 1
        self.gauge.set(self._open)
