"""The holds that were promised to a client, beside those that are listed."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tests.chaos.model.verdicts import Bounds, Kind, Violation


@dataclass(slots=True, kw_only=True)
class Promise:
    """A hold that was acknowledged at `acked_s`, asked for at `asked_s` for the first time.

    `gpus` are those taken on each node. `is_final`: committed, so that it has no end. The end is
    not known while `committing`, and after `ended_s` the hold is given back. `doubtful`: the state
    was taken away, and nobody knows.
    """

    id: str
    asked_s: float
    acked_s: float
    hold_s: float
    gpus: Mapping[str, int]
    is_final: bool = False
    committing: bool = False
    releasing: bool = False
    ended_s: float | None = None
    doubtful: bool = False

    def lives(self, now_s: float) -> bool:
        """Whether it must exist then."""
        if self.doubtful or self.releasing or now_s < self.acked_s:
            return False
        return self.is_final or now_s < self.asked_s + self.hold_s

    def is_over(self, now_s: float, slack_s: float) -> bool:
        """Whether it must not exist any more then."""
        if self.ended_s is not None:
            return now_s > self.ended_s
        timed = not (self.is_final or self.committing)
        return timed and now_s > self.acked_s + self.hold_s + slack_s


class Ledger:
    """All promises. The caller says what it asks and what is acknowledged."""

    def __init__(self, gpus_per_node: int, bounds: Bounds) -> None:
        self._gpus_per_node = gpus_per_node
        self._slack_s = bounds.slack_s
        self.promises: dict[str, Promise] = {}
        self._in_doubt = False

    def acknowledge(self, promise: Promise) -> Iterator[Violation]:
        """A hold was given: none of its GPUs may be another's."""
        promise.doubtful = self._in_doubt
        self.promises[promise.id] = promise
        taken: Counter[str] = Counter()
        for each in self.promises.values():
            if each.lives(promise.acked_s):
                taken.update(each.gpus)
        for node, gpus in taken.items():
            if node in promise.gpus and gpus > self._gpus_per_node:
                yield Violation(Kind.GPU_TWICE, f"{gpus} GPUs of {node} with {promise.id}")

    def committed(self, hold: str, *, kept: bool) -> None:
        """A commit was answered: it is kept without an end, or is said to be over."""
        promise = self.promises[hold]
        promise.is_final = kept
        if promise.doubtful:
            del self.promises[hold]

    def ended(self, hold: str, now_s: float) -> None:
        """A release was acknowledged, or the hold is said to be over; both are final.

        What is said while the state is lost tells nothing about later: the hold is judged no more.
        """
        promise = self.promises.get(hold)
        if promise is not None and promise.doubtful:
            del self.promises[hold]
        elif promise is not None:
            promise.releasing, promise.ended_s = True, now_s

    def doubt(self) -> tuple[str, ...]:
        """The state was taken away: which promises are kept is not known; the ids of them all."""
        self._in_doubt = True
        for promise in self.promises.values():
            promise.doubtful = True
        return tuple(self.promises)

    def trust(self, holds: Collection[str] = ()) -> None:
        """What is promised from now on counts, and these, whose state is back as it was."""
        self._in_doubt = False
        for hold in holds:
            if hold in self.promises:
                self.promises[hold].doubtful = False

    def judge(self, listed: Collection[str], sent_s: float, done_s: float) -> Iterator[Violation]:
        """Judges a list that was asked for at `sent_s` and was there at `done_s`."""
        for promise in tuple(self.promises.values()):
            if promise.id not in listed:
                yield from self.missing(promise, sent_s, done_s)
            elif promise.is_over(sent_s, self._slack_s):
                yield Violation(Kind.HOLD_OUTLIVED, f"{promise.id} of {promise.hold_s:g} s")

    def missing(self, promise: Promise, sent_s: float, done_s: float) -> Iterator[Violation]:
        """Judges an answer that knows nothing of the hold."""
        if promise.lives(sent_s) and promise.lives(done_s):
            left_s = promise.asked_s + promise.hold_s - done_s
            until = "committed" if promise.is_final else f"{left_s:.1f} s before its end"
            yield Violation(Kind.HOLD_LOST, f"{promise.id}, {until}")
