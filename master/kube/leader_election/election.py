"""The rules of leader election over one record that all candidates write; no I/O.

Safe by four rules, whatever the delays. A leader counts its term from when it *requested* the
renewal that was granted, and for `renew_deadline_s` only; a candidate waits `duration_s` from when
it last *saw* the record change; each uses its own monotonic clock, so no wall clock matters; and a
write names the version that it replaces, so of two writes only one is granted. The difference of
the two times, 4 s by default, is for the leader's work to end and for clocks that run unevenly.

It has the shape of client-go's `tools/leaderelection/leaderelection.go` (v0.36), but: a deleted
record is not replaced before its holder's term is over, a candidate wakes exactly at that time, and
a leader ends when another holds the record, not when its own term is over.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

JITTER = 0.25
"""Candidates wait up to this share of `retry_s` longer, so that they do not all ask at once."""
WORK_ENDS_S = 3.0
"""Work that a leader began ends within this time after its term: no call of it takes longer."""
UNEVEN_CLOCKS_S = 1.0
"""How far two clocks may drift apart during one term."""
MAX_RETRY_AFTER_S = 30.0
"""The longest wait of a candidate, whatever the server asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """How long others respect a record, how long its holder trusts it, how often it is renewed.

    A little less than Kubernetes' own controllers use (15, 10 and 2 s): another master leads within
    15 s of a kill, including the polling of a candidate.
    """

    duration_s: float = 12.0
    renew_deadline_s: float = 8.0
    retry_s: float = 2.0

    @classmethod
    def of(cls, duration_s: float) -> "LeaseTimes":
        """Return safe times for a term of `duration_s`, at least 5 s.

        A leader and its pending work end one second before another leader begins, and a renewal is
        tried three times.
        """
        renew_deadline_s = duration_s - WORK_ENDS_S - UNEVEN_CLOCKS_S
        return cls(
            duration_s=duration_s, renew_deadline_s=renew_deadline_s, retry_s=renew_deadline_s / 4
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The content of the record. Its times are text: no master computes with them."""

    holder: str = ""
    duration_s: float = 0.0
    transitions: int = 0
    acquired: str = ""
    renewed: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """The record as it is; `metadata` has its version, which a write must name."""

    record: LeaseRecord
    metadata: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Missing:
    """The record does not exist."""


@dataclass(frozen=True, slots=True)
class Written:
    """A write that was requested at `asked_s` was granted; `found` is the record after it."""

    found: Found
    asked_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A call was refused, or was not answered in time."""

    reason: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Woken:
    """The time to wait is over; also the first event."""


@dataclass(frozen=True, slots=True)
class Look:
    """Read the record."""


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Write this candidate into the record in place of `found`; create it where that is None."""

    found: Found | None
    transitions: int
    acquired: str | None
    """When the term began; None for a new one."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Wait until `until_s`."""

    until_s: float


@dataclass(frozen=True, slots=True)
class Lost:
    """The term is over, and the process must end."""

    reason: str


Event = Found | Missing | Written | Failed | Woken
Action = Look | WriteLease | Rest | Lost


@dataclass(slots=True, kw_only=True)
class Election:
    """One candidate. Times are seconds of one monotonic clock; `chance` draws from 0 to 1."""

    name: str
    times: LeaseTimes
    chance: Callable[[], float]
    leader_until_s: float = -math.inf
    """The end of the term granted so far; long ago without one."""
    found: Found | None = None
    """The record as it was last seen."""
    _leads: bool = False
    _changed_s: float = -math.inf
    _looked: bool = False
    """Whether the record was read after the failed renewal."""
    _began_s: float = -math.inf
    """When the failed renewal began."""
    _failure: str = "no answer"

    def leads(self, now_s: float) -> bool:
        """Return whether the term lasts. Call it right before any work of a leader."""
        return self._leads and now_s < self.leader_until_s

    @property
    def holder(self) -> str:
        """The holder of the record as last seen; empty without one."""
        return self.found.record.holder if self.found is not None else ""

    @property
    def respected_until_s(self) -> float:
        """The time until which another holder counts as leader; in the far past without one."""
        return self._free_s()

    def advance(self, now_s: float, event: Event) -> Action:
        """Return the next action."""
        action = self._decide(now_s, event)
        if self._leads and not isinstance(action, Lost) and now_s >= self.leader_until_s:
            deadline_s = self.times.renew_deadline_s
            return Lost(f"not renewed within {deadline_s:g} s: {self._failure}")
        return action

    def _decide(self, now_s: float, event: Event) -> Action:
        match event:
            case Found():
                return self._judge(event, now_s)
            case Missing():
                return self._without_record(now_s)
            case Written():
                return self._granted(event, now_s)
            case Failed():
                return self._again(event, now_s)
            case Woken():
                self._began_s = now_s
                return self._renewal() if self._leads else Look()

    def _judge(self, found: Found, now_s: float) -> Action:
        self._see(found, now_s)
        if self._leads:
            if found.record.holder == self.name:
                return self._renewal()
            self._leads = False  # whatever is left of our term is the other's
            return Lost(f"{found.record.holder or 'nobody'} holds the lease")
        free_s = self._free_s()
        return Rest(self._next_look_s(now_s)) if now_s < free_s else self._claim()

    def _without_record(self, now_s: float) -> Action:
        """Restore the record if this candidate leads; else wait for the end of the last term."""
        if not self._leads and now_s < self._free_s():
            return Rest(self._next_look_s(now_s))
        record = self.found.record if self.found is not None else LeaseRecord()
        acquired = record.acquired if self._leads else None
        return WriteLease(
            None, record.transitions + (not self._leads and bool(record.holder)), acquired
        )

    def _granted(self, written: Written, now_s: float) -> Action:
        self._see(written.found, now_s)
        # From the request, not the answer: others count from when they saw the record, later.
        until_s = written.asked_s + self.times.renew_deadline_s
        self._looked = False
        if now_s < until_s:
            self._leads, self.leader_until_s = True, until_s
        return Rest(min(now_s + self.times.retry_s, max(now_s, until_s)))

    def _again(self, failed: Failed, now_s: float) -> Action:
        self._failure = failed.reason
        if not self._leads:
            return Rest(max(self._next_look_s(now_s), now_s + _bounded(failed.retry_after_s)))
        # The write may have been granted although its answer was lost: only the record tells.
        if not self._looked:
            self._looked = True
            return Look()
        self._looked = False  # what stalled has taken the time of the rest
        return Rest(min(max(now_s, self._began_s + self.times.retry_s), self.leader_until_s))

    def _see(self, found: Found, now_s: float) -> None:
        # Any change proves that the holder is alive; its own times are on another clock.
        if self.found is None or found.record != self.found.record:
            self._changed_s = now_s
        self.found = found

    def _free_s(self) -> float:
        """Return the time from which the record may be taken: its holder has ended by then."""
        if self.found is None or self.found.record.holder in {"", self.name}:
            return -math.inf
        return self._changed_s + self.found.record.duration_s

    def _next_look_s(self, now_s: float) -> float:
        look_s = now_s + self.times.retry_s * (1 + JITTER * self.chance())
        # Waking exactly at the end of the term saves up to a retry period of a takeover.
        free_s = self._free_s()
        return free_s if now_s < free_s < look_s else look_s

    def _renewal(self) -> WriteLease:
        record = self.found.record if self.found is not None else LeaseRecord()
        return WriteLease(self.found, record.transitions, record.acquired)

    def _claim(self) -> WriteLease:
        record = self.found.record if self.found is not None else LeaseRecord()
        changes_hands = record.holder != self.name
        acquired = None if changes_hands else record.acquired
        return WriteLease(self.found, record.transitions + changes_hands, acquired)


def _bounded(retry_after_s: float | None) -> float:
    return min(retry_after_s or 0.0, MAX_RETRY_AFTER_S)
