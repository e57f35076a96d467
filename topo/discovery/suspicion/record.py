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
_TOLD_AGAIN = 2
"""The words change when a number has doubled: each change of words is a generation."""


def decayed(score: float, seconds: float) -> float:
    """Return what is left of a score after so long."""
    return score * exp2(-max(0.0, seconds) / HALF_LIFE_S)


@dataclass(slots=True)
class LinkRecord:
    """One link end. `score` is as of `at_s`; `counts` has each counter with when it last moved.

    `times`: how often it was named since it was last forgotten or cleared. `confirmed`: the words
    of the operator who said that it is bad. `told`: the numbers that the words have. `far`: the
    server at the other end when it fell last. `due_s`: when it is looked at again.
    `unpaired_flaps`: falls that were seen, which its own counter of falls has still to count.
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

    def add(self, kind: str, count: int, weight: float, now_s: float) -> None:
        """Add events of a kind with their weight in all; the score stays below `HIGHEST`.

        A fall that was seen and is counted, too, weighs once.
        """
        if kind == FLAP:
            self.unpaired_flaps += count
        elif kind == LinkErrorKind.LINK_DOWNED:
            seen = min(count, self.unpaired_flaps)
            self.unpaired_flaps -= seen
            weight *= (count - seen) / count
            count -= seen
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
            far=kept.far,
        )
