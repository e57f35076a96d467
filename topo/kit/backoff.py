"""Pauses between retries: full jitter, a ceiling, and `Retry-After` of the peer."""

from collections.abc import Callable
from email.utils import parsedate_to_datetime

from tenacity import RetryCallState, wait_random_exponential
from tenacity.wait import wait_base

from topo.model.errors import TopoError

RETRY_AFTER_CEILING_S = 300.0
"""The longest wait that a peer may ask for."""


def full_jitter(base_s: float, ceiling_s: float) -> wait_base:
    """Uniform in 0…min(ceiling, base * 2^n) seconds at retry n, which spreads a herd best.

    Source: AWS Architecture Blog, "Exponential Backoff And Jitter" (2015).
    """
    return wait_random_exponential(multiplier=base_s, max=ceiling_s)


class RetryLaterError(TopoError):
    """A failed attempt that may be repeated, after `retry_after_s` if the peer asks for a pause."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def requested_wait_s(
    error: BaseException | None, ceiling_s: float = RETRY_AFTER_CEILING_S
) -> float:
    """Return the pause that the peer asked for, at most `ceiling_s`; 0 if it did not."""
    asked_s = error.retry_after_s if isinstance(error, RetryLaterError) else None
    return min(asked_s or 0.0, ceiling_s)


def retry_after_or(
    wait: wait_base, ceiling_s: float = RETRY_AFTER_CEILING_S
) -> Callable[[RetryCallState], float]:
    """Return a strategy that waits for the longer of `wait` and the peer's request.

    It waits at most `ceiling_s`. The longer of the two keeps the jitter if all clients got the same
    short `Retry-After`.
    """

    def longer(retry_state: RetryCallState) -> float:
        outcome = retry_state.outcome
        error = outcome.exception() if outcome else None
        return max(wait(retry_state), requested_wait_s(error, ceiling_s))

    return longer


def parse_retry_after(header: str | None, now_s: float) -> float | None:
    """Return the seconds from now that a `Retry-After` header means (RFC 9110 10.2.3).

    `now_s` is Unix time. None if the header is absent or invalid.
    """
    if header is None:
        return None
    if header.strip().isascii() and header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now_s)
    except (ValueError, TypeError, OverflowError):
        return None
