"""The evidence against a link: its kinds, their weights, and the sentences about it.

A score of `NAMED` makes a suspicion. So the weight of a kind is one over the number of its events
within a short time that are too many. The numbers follow NVSentinel's monitor of network cards
(docs/configuration/nic-health-monitor.md: any `link_downed` or uncorrected error is fatal there, a
symbol error from 120 an hour on, which is a bit error rate of 1e-12), but no single event of a
kind that a healthy cluster knows (a cable that was pulled) names anybody here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from topo.model.machine import LinkErrorKind
from topo.model.words import counted, listed

FLAP = "flap"
"""A link that was up and is seen down."""
SLOWDOWN = "slowdown"
"""A link that was well and is seen up and degraded."""
NAMED = 1.0
"""The score from which a link is suspected."""
LIFTED = 0.5
"""The score below which it is suspected no more: half, so one half-life after the threshold."""
HALF_LIFE_S = 86_400.0
"""A day: one flap a day, the complaint of large clusters, adds up to more than `NAMED`."""
HIGHEST = 16.0
"""A score rises no further: the worst link is forgiven five half-lives after its last event."""
LIFETIME_S = 30 * 86_400.0
"""A count of unknown age counts as if it had risen evenly over so long."""


class Kind(NamedTuple):
    """The weight of one event of a kind, how many an hour are normal, and its noun."""

    weight: float
    noun: str
    normal_per_h: float = 0.0


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        FLAP: Kind(0.6, "flap"),
        SLOWDOWN: Kind(0.5, "slowdown"),
        LinkErrorKind.LINK_DOWNED: Kind(0.6, "flap"),
        LinkErrorKind.RECOVERY: Kind(0.1, "recovery"),
        LinkErrorKind.RECOVERY_FAILED: Kind(1.0, "failed recovery"),
        LinkErrorKind.LINK_INTEGRITY: Kind(0.3, "link integrity error"),
        LinkErrorKind.UNCORRECTED: Kind(0.6, "uncorrected error"),
        LinkErrorKind.REPLAY: Kind(0.01, "replay", 120.0),
        LinkErrorKind.CRC: Kind(0.01, "CRC error", 120.0),
        LinkErrorKind.SYMBOL: Kind(0.01, "symbol error", 120.0),
        LinkErrorKind.EFFECTIVE: Kind(0.01, "effective error", 120.0),
    }
)
"""What is counted otherwise weighs nothing: discards and overruns come of congestion, receive
errors of what the far end sends, and corrected errors are what a link is built for."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Events of a kind: how many, and when the first and the last of them came (monotonic s)."""

    kind: str
    count: int
    first_s: float
    last_s: float


def in_words(counts: Iterable[tuple[str, int]]) -> str:
    """Return `505 recoveries and 3 flaps`, the weightiest first; flaps told twice are added."""
    sums: dict[str, int] = {}
    for kind, count in sorted(counts, key=lambda each: -KINDS[each[0]].weight * each[1]):
        noun = KINDS[kind].noun
        sums[noun] = sums.get(noun, 0) + count
    return listed([counted(number, noun) for noun, number in sums.items()])
