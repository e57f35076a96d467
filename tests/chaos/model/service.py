"""Judges what is asked beside trees and holds: liveness, tokens, exits, logs, convergence."""

import re
from collections.abc import Iterable, Iterator

from tests.chaos.model.truth import Truth
from tests.chaos.model.verdicts import Kind, Violation

_ERROR = re.compile(r"^[A-Za-z_][\w.]*(:.*)?$", re.MULTILINE)
"""The line of a traceback that names the exception."""
_REFUSED = frozenset({401, 403, 408, 413, 429})


class Service:
    """Judges a service that somebody kills on purpose, beside what is known of that."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._revoked_s: dict[str, float] = {}

    def health(self, status: int | None, sent_s: float, done_s: float) -> Iterator[Violation]:
        """One `GET /health`; the status is None where no answer came."""
        if not self._truth.is_serving(sent_s):
            return
        took_s = done_s - sent_s
        if status != 200 or took_s > self._truth.bounds.health_s:
            said = "no answer" if status is None else f"status {status}"
            yield Violation(Kind.SLOW_HEALTH, f"{said} after {took_s:.2f} s")

    def revoked(self, token: str, now_s: float) -> None:
        """The token is in no file any more."""
        self._revoked_s[token] = now_s

    def token(self, token: str, status: int, sent_s: float) -> Iterator[Violation]:
        """The answer to a call that was sent with a token."""
        since_s = self._revoked_s.get(token)
        if since_s is None or status in _REFUSED or status >= 500:
            return
        known_s = min(sent_s - since_s, self._truth.serves_for_s(sent_s))
        if known_s > self._truth.bounds.revoke_s:
            what = f"status {status} for a token that was revoked {sent_s - since_s:.1f} s before"
            yield Violation(Kind.REVOKED, what)


def answered(what: str, status: int) -> Iterator[Violation]:
    """The status of any answer: a refusal is none of the service's own errors, nor is 503."""
    if status >= 500 and status != 503:
        yield Violation(Kind.ERROR, f"status {status} for {what}")


def exit_of(name: str, code: int) -> Violation:
    """A process ended that nobody ended."""
    return Violation(Kind.DIED, f"{name} with exit code {code}")


def asked_to_end(name: str, code: int | None) -> Iterator[Violation]:
    """The exit code of a process after SIGTERM or SIGKILL; None where it still runs."""
    if code is None:
        yield Violation(Kind.STUCK, name)
    elif code > 0:
        yield Violation(Kind.DIED, f"{name} with exit code {code} after a signal")


def second_master(code: int | None) -> Iterator[Violation]:
    """The exit code of a master on the state file of another; None where it still runs."""
    if not code:
        yield Violation(Kind.TWO_MASTERS, "it runs" if code is None else "it ended with 0")


def log(name: str, text: str, secrets: Iterable[str]) -> Iterator[Violation]:
    """What was written to a log; which secret it shows is not repeated."""
    if "Traceback (most recent call last)" in text:
        error = _ERROR.search(text, text.index("Traceback (most recent call last)"))
        yield Violation(Kind.TRACEBACK, f"{name}: {error.group()[:160] if error else ''}")
    if shown := sum(secret in text for secret in secrets):
        yield Violation(Kind.SECRET, f"{name} shows {shown}")


def convergence(took_s: float, allowance_s: float, limit_s: float) -> Iterator[Violation]:
    """How long it took until the expected tree was seen."""
    if took_s - allowance_s > limit_s:
        granted = f", {allowance_s:g} s of them documented" if allowance_s else ""
        yield Violation(Kind.UNSETTLED, f"after {took_s:.1f} s{granted}")
