"""An allowance that fills up by and by."""

import math
from dataclasses import dataclass


@dataclass(slots=True)
class TokenBucket:
    """`rate` tokens a second, at most `burst` of them; full at first. Times are monotonic."""

    rate: float
    burst: float
    refilled_s: float
    tokens: float = math.inf

    def has_one(self, now_s: float) -> bool:
        """Whether there is one to take."""
        self.tokens = min(self.burst, self.tokens + (now_s - self.refilled_s) * self.rate)
        self.refilled_s = now_s
        return self.tokens >= 1

    def take(self, now_s: float) -> bool:
        """Takes one; False when there is none left."""
        if not self.has_one(now_s):
            return False
        self.tokens -= 1
        return True
