"""What is remembered of one link end: its score, the evidence behind it, its counters.

Each event adds its weight; the score halves every `HALF_LIFE_S`. So the score at any time is the
sum of all weights, each times 2^(-age / HALF_LIFE_S), however the events were cut into readings:
only the sum and its time are kept.

Example: a flap (0.6) on Monday, Tuesday and Wednesday at noon is 0.6, then 0.3 + 0.6, then 0.45 +
0.6 = 1.05, which is named. Without another it falls below `LIFTED` after log2(1.05 / 0.5) days.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import exp2, inf, log2

from topo.discovery.suspicion.evidence import (
    FLAP,
    HALF_LIFE_S,
    HIGHEST,
    KINDS,
    LIFETIME_S,
    LIFTED,
    NAMED,
    Evidence,
    in_words,
)
from topo.discovery.suspicion.memory import LinkMemory
from topo.model.ids import ServerUuid
from topo.model.machine import LinkErrorKind

FORGOTTEN = 0.01
"""Below this score a link that nobody suspects any more has no past: after a week or so."""
PAIRED_S = 180.0
"""A fall is seen and counted within so long: counters are read once a minute, and a reading of them
or of the states may be lost."""
_TOLD_AGAIN = 2
"""The words change when a number has doubled: each change of words is a generation."""


def decayed(score: float, seconds: float) -> float:
    """Return what is left of a score after so long."""
    return score * exp2(-max(0.0, seconds) / HALF_LIFE_S)


@dataclass(frozen=True, slots=True)
class Rise:
    """How many events of a kind there were in one reading, and what they weigh in all.

    `is_dated`: they happened since the reading before, and not at any time of the link's life.
    """

    count: int
    weight: float
    is_dated: bool = True


@dataclass(slots=True)
class LinkRecord:
    """One link end. `score` is as of `at_s`; `counts` has each counter with when it last moved.

    `times`: how often it was named since it was last forgotten or cleared. `confirmed`: the words
    of the operator who said that it is bad. `told`: the numbers that the words have. `far`: the
    server at the other end when it fell last. `due_s`: when it is looked at again.
    `unpaired_flaps`: falls that were seen, which its own counter of falls has still to count; below
    0 those that were counted and are still to be seen. `unpaired_s`: when the last of them was.
    """

    score: float = 0.0
    at_s: float = 0.0
    evidence: dict[str, Evidence] = field(default_factory=dict)
    counts: dict[str, tuple[int, float]] = field(default_factory=dict)
    is_named: bool = False
    times: int = 0
    confirmed: str | None = None
    told: Mapping[str, int] = field(default_factory=dict)
    far: ServerUuid | None = None
    due_s: float = inf
    unpaired_flaps: int = 0
    unpaired_s: float = -inf

    @property
    def is_suspected(self) -> bool:
        """Whether it is to be told."""
        return self.is_named or self.confirmed is not None

    @property
    def is_blank(self) -> bool:
        """Whether nothing would be lost with it."""
        return not (self.evidence or self.counts or self.is_suspected)

    @property
    def next_s(self) -> float:
        """When time alone changes it: it is lifted, or forgotten; infinite if never."""
        if self.confirmed is not None or not self.evidence:
            return inf
        least = LIFTED if self.is_named else FORGOTTEN
        return self.at_s + (HALF_LIFE_S * log2(self.score / least) if self.score > least else 0.0)

    def add(self, kind: str, rise: Rise, now_s: float) -> None:
        """Add events of a kind with their weight in all; the score stays below `HIGHEST`.

        A fall that is seen and counted weighs once, whichever comes first.
        """
        paired = self._pair(kind, rise, now_s)
        count, weight = rise.count - paired, rise.weight * (1 - paired / rise.count)
        if kind == FLAP and paired:
            self._see_counted(paired, now_s)
        if count == 0:
            return
        self.score = min(HIGHEST, decayed(self.score, now_s - self.at_s) + weight)
        self.at_s = now_s
        known = self.evidence.get(kind) or Evidence(kind, 0, now_s, now_s)
        self.evidence[kind] = replace(known, count=known.count + count, last_s=now_s)
        counts = {each.kind: each.count for each in self.evidence.values()}
        if not self.is_named and self.score >= NAMED:
            self.is_named, self.times, self.told = True, self.times + 1, counts
        elif any(count >= _TOLD_AGAIN * self.told.get(kind, 0) for kind, count in counts.items()):
            self.told = counts

    def _pair(self, kind: str, rise: Rise, now_s: float) -> int:
        """Return how many of these falls are known already: counted ones seen, or the reverse."""
        if kind not in {FLAP, LinkErrorKind.LINK_DOWNED}:
            return 0
        if now_s - self.unpaired_s > PAIRED_S:
            self.unpaired_flaps = 0
        sign = 1 if kind == FLAP else -1
        known = min(rise.count, max(0, -sign * self.unpaired_flaps))
        self.unpaired_flaps += sign * (rise.count if rise.is_dated else known)
        self.unpaired_s = now_s
        return known

    def _see_counted(self, number: int, now_s: float) -> None:
        """Make counted falls seen ones, which are taken back where the other end booted."""
        counted = self.evidence.pop(LinkErrorKind.LINK_DOWNED)
        if counted.count > number:
            self.evidence[counted.kind] = replace(counted, count=counted.count - number)
        known = self.evidence.get(FLAP) or Evidence(FLAP, 0, counted.first_s, now_s)
        self.evidence[FLAP] = replace(known, count=known.count + number, last_s=now_s)

    def take_back_flap(self, now_s: float) -> None:
        """Take back the last flap: it was the other end that rebooted."""
        last = self.evidence[FLAP]
        left = decayed(self.score, now_s - self.at_s)
        left -= decayed(KINDS[FLAP].weight, now_s - last.last_s)
        self.score, self.at_s, self.far = max(0.0, left), now_s, None
        self.evidence[FLAP] = replace(last, count=last.count - 1)
        if self.evidence[FLAP].count <= 0:
            del self.evidence[FLAP]
        if self.is_named and self.score < NAMED:
            self.is_named, self.times = False, self.times - 1

    def pass_time(self, now_s: float) -> None:
        """Lift or forget what is due."""
        while self.next_s <= now_s:
            if not self.is_named:
                self.clear()
                return
            self.is_named = False

    def clear(self) -> None:
        """Forget everything but the counters, which go on from where they are."""
        self.score, self.evidence, self.told = 0.0, {}, {}
        self.is_named, self.times, self.confirmed, self.far = False, 0, None, None
        self.unpaired_flaps = 0

    @property
    def text(self) -> str:
        """Why it is suspected, in words."""
        said = in_words(self.told.items()) if self.told else "named by an operator"
        if self.times > 1:
            said += f", suspected {self.times} times"
        return said if self.confirmed is None else f"{said}; confirmed: {self.confirmed}"

    def persistent_state(self, link: str, now_s: float) -> LinkMemory:
        """Return what a state file keeps, with ages as of that time."""
        return LinkMemory(
            link,
            decayed(self.score, now_s - self.at_s),
            tuple(
                (kind, count, min(now_s - at_s, LIFETIME_S))
                for kind, (count, at_s) in self.counts.items()
            ),
            tuple(
                (each.kind, each.count, now_s - each.first_s, now_s - each.last_s)
                for each in self.evidence.values()
            ),
            self.is_named,
            self.times,
            self.confirmed,
            self.unpaired_flaps,
            self.far,
            min(now_s - self.unpaired_s, LIFETIME_S),
        )

    @classmethod
    def remembered(cls, kept: LinkMemory, as_of_s: float) -> "LinkRecord":
        """Return the record as it was, its ages counted from that time."""
        evidence = {
            kind: Evidence(kind, count, as_of_s - first_s, as_of_s - last_s)
            for kind, count, first_s, last_s in kept.evidence
            if kind in KINDS
        }
        return cls(
            score=max(0.0, min(HIGHEST, kept.score)),
            at_s=as_of_s,
            evidence=evidence,
            counts={kind: (count, as_of_s - age_s) for kind, count, age_s in kept.counts},
            is_named=kept.is_named,
            times=kept.times,
            confirmed=kept.confirmed,
            told={each.kind: each.count for each in evidence.values()},
            unpaired_flaps=kept.unpaired_flaps,
            unpaired_s=as_of_s - kept.unpaired_age_s,
            far=kept.far,
        )
