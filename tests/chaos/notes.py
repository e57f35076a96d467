"""What was done and seen: counts, violations, a log of bounded size, the table at the end."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO

from tests.chaos.model.verdicts import Kind, Violation

_LOG_BYTES = 32 << 20
_WIDTH = 80


class Notes:
    """Grows while the run goes on; `write` takes the log."""

    def __init__(self, log: IO[str], now: Callable[[], float]) -> None:
        self._log, self._now = log, now
        self._written = 0
        self.acts: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.violations: Counter[Kind] = Counter()
        self.converged_s: list[float] = []
        self.health_s: list[float] = []

    def say(self, line: str) -> None:
        """A line of the log, with its time."""
        line = f"{self._now():8.2f}  {line}\n"
        self._written += len(line)
        if self._written <= _LOG_BYTES:
            self._log.write(line)
            self._log.flush()

    def found(self, violation: Violation) -> None:
        """Counts a violation; the log has each, up to its size."""
        self.violations[violation.kind] += 1
        self.say(f"VIOLATION  {violation.kind}: {violation.what}")

    def judged(self, what: str, found: Iterable[Violation]) -> None:
        """An answer of that sort was judged."""
        self.answers[what] += 1
        for violation in found:
            self.found(violation)


def table(notes: Notes) -> Iterator[str]:
    """What came out, at most 80 columns wide."""
    for title, counts in (("acts", notes.acts), ("answers judged", notes.answers)):
        yield from _counted(title, counts)
    yield from _counted("violations", {str(kind): n for kind, n in notes.violations.items()})
    yield f"converged after   {_spread(notes.converged_s)}"
    yield f"/health after     {_spread(notes.health_s)}"


def _counted(title: str, counts: "Counter[str] | dict[str, int]") -> Iterator[str]:
    line = f"{title + ':':<18}{sum(counts.values())}"
    for name, count in sorted(counts.items()):
        word = f"  {name} {count}"
        if len(line) + len(word) > _WIDTH:
            yield line
            line = " " * 16
        line += word
    yield line


def _spread(times_s: Sequence[float]) -> str:
    if not times_s:
        return "never"
    ranked = sorted(times_s)
    p50, p99 = (ranked[min(len(ranked) - 1, int(len(ranked) * part))] for part in (0.5, 0.99))
    return f"p50 {p50:.2f} s  p99 {p99:.2f} s  worst {ranked[-1]:.2f} s  of {len(ranked)}"
