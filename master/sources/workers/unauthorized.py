"""Reports that were refused for their token: counted, and told as a warning about the workers.

Who sends them is not known, so they are no conflict of a node, and however many there are they
never move the generation. Without this a master whose workers all have a wrong token would look
like one whose workers do not run.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from topo.model.forest import Reason
from topo.model.observation import WORKERS, Event, SourceWarned

UNKNOWN_TOKEN = "unknown-worker-token"  # noqa: S105 - a code, no secret
NO_TOKENS = "no-worker-tokens"
SAID_EVERY_S = 5.0
"""However many there are, discovery is told this often."""
LISTED_S = 60.0
"""Longer than the longest pause between two tries of a worker (8 s): one that is refused stays
listed until it is let in or ended."""
ADDRESSES_SHOWN = 3


@dataclass(slots=True)
class UnauthorizedReports:
    """The reports refused since the last pause of `LISTED_S`. Times in monotonic seconds."""

    submit: Callable[[Event], bool]
    _number: int = 0
    _first_s: float = 0.0
    _last_s: float = -math.inf
    _said_s: float = -math.inf
    _addresses: dict[str, None] = field(default_factory=dict)

    def add(self, address: str, now_s: float, *, has_token: bool, has_file: bool) -> None:
        """One more, from `address`: with or without a token, here with or without a token file."""
        if now_s - self._last_s >= LISTED_S:
            self._number, self._first_s, self._addresses = 0, now_s, {}
        self._number, self._last_s = self._number + 1, now_s
        self._addresses.pop(address, None)
        self._addresses[address] = None
        while len(self._addresses) > ADDRESSES_SHOWN:
            del self._addresses[next(iter(self._addresses))]
        if now_s - self._said_s < SAID_EVERY_S:
            return
        warning = self._warning(has_token=has_token, has_file=has_file)
        if self.submit(SourceWarned(WORKERS, (warning,), LISTED_S)):
            self._said_s = now_s

    def _warning(self, *, has_token: bool, has_file: bool) -> Reason:
        span_s = self._last_s - self._first_s
        within = f" in {span_s:.0f} s" if span_s >= 1 else ""
        number = "1 report was" if self._number == 1 else f"{self._number} reports were"
        counted = f"{number} refused for the token{within}, the last from "
        counted += ", ".join(reversed(self._addresses))
        if not has_file:
            return Reason(
                NO_TOKENS, f"{counted}: this master has no token file, and lets nobody in"
            )
        how = "carried a token that this master does not know" if has_token else "carried none"
        return Reason(UNKNOWN_TOKEN, f"{counted}, which {how}")
