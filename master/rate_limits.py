"""Rate limits: a token bucket, and one bucket for each sender."""

import math
from dataclasses import dataclass, field

SENDERS_KEPT = 4096
"""Most senders with a bucket of their own; the one heard of longest ago is dropped."""


@dataclass(slots=True)
class TokenBucket:
    """`rate` tokens a second, at most `burst` of them; full at first. Times are monotonic."""

    rate: float
    burst: float
    refilled_s: float
    tokens: float = math.inf

    def has_one(self, now_s: float) -> bool:
        """Return whether a token is left."""
        self.tokens = min(self.burst, self.tokens + (now_s - self.refilled_s) * self.rate)
        self.refilled_s = now_s
        return self.tokens >= 1

    def take(self, now_s: float) -> bool:
        """Take a token; return False when none is left."""
        if not self.has_one(now_s):
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True)
class SenderLimits:
    """A token bucket for each sender, full at first. Times are monotonic seconds."""

    rate: float
    burst: float
    _allowances: dict[str, TokenBucket] = field(default_factory=dict)

    def has_room(self, sender: str, now_s: float) -> bool:
        """Return whether this sender has a token left."""
        allowance = self._allowances.get(sender)
        return allowance is None or allowance.has_one(now_s)

    def take(self, sender: str, now_s: float) -> bool:
        """Take a token; return False when none is left."""
        has_room = self.has_room(sender, now_s)
        if has_room:
            self.add(sender, now_s)
        return has_room

    def give_back(self, sender: str) -> None:
        """Return a token that was taken."""
        if sender in self._allowances:
            self._allowances[sender].tokens += 1

    def add(self, sender: str, now_s: float) -> None:
        """Take a token even when none is left."""
        allowance = self._allowances.pop(sender, None)
        if allowance is None:
            allowance = TokenBucket(self.rate, self.burst, now_s)
        allowance.take(now_s)
        self._allowances[sender] = allowance
        if len(self._allowances) > SENDERS_KEPT:
            del self._allowances[next(iter(self._allowances))]
