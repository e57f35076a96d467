"""Refused reports, counted by reason and shown as warnings about the workers.

Their sender is not certain, so they are no conflict of a node, and never change the generation.
Without these warnings a master whose workers all have a wrong token would look like one whose
workers do not run.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from topo.model.forest import SourceWarning
from topo.model.observation import WORKERS, Event, SourceWarned

SAID_EVERY_S = 5.0
"""Discovery receives the warnings this often, however many reports are refused."""
LISTED_S = 60.0
"""Longer than the longest pause between two tries of a worker (8 s): a refused one stays listed
until it is accepted or ended."""
SENDERS_SHOWN = 3

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Refusals:
    """Refusals for one reason since the last pause of `LISTED_S`; `senders` in order of their last
    try.
    """

    since_s: float
    last_s: float
    number: int = 0
    senders: dict[str, None] = field(default_factory=dict)
    why: str = ""

    def warning(self, code: str) -> SourceWarning:
        span_s = self.last_s - self.since_s
        within = f" in {span_s:.0f} s" if span_s >= 1 else ""
        number = "1 report was" if self.number == 1 else f"{self.number} reports were"
        last = ", ".join(reversed(self.senders))
        text = f"{number} refused{within}, the last from {last}: {self.why}"
        return SourceWarning(code, text, self.since_s)


@dataclass(slots=True)
class RefusedReports:
    """Recent refusals by reason. Times in monotonic seconds."""

    submit: Callable[[Event], bool]
    _refusals: dict[str, _Refusals] = field(default_factory=dict)
    _said_s: float = -math.inf

    def add(self, code: str, sender: str, why: str, now_s: float) -> None:
        """Count a refusal; `why` says what is wrong with the report."""
        self._forget(now_s)
        is_new = code not in self._refusals
        found = self._refusals.setdefault(code, _Refusals(now_s, now_s))
        found.number, found.last_s, found.why = found.number + 1, now_s, why
        if is_new:
            _log.warning("reports are refused", code=code, sender=sender, why=why)
        found.senders.pop(sender, None)
        found.senders[sender] = None
        while len(found.senders) > SENDERS_SHOWN:
            del found.senders[next(iter(found.senders))]
        if is_new or now_s - self._said_s >= SAID_EVERY_S:
            warnings = tuple(each.warning(of) for of, each in self._refusals.items())
            if self.submit(SourceWarned(WORKERS, warnings, LISTED_S)):
                self._said_s = now_s

    def _forget(self, now_s: float) -> None:
        for code in [c for c, each in self._refusals.items() if now_s - each.last_s >= LISTED_S]:
            del self._refusals[code]
