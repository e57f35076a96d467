"""Reports that cannot be read: who sends many of them is answered without reading on.

To find that a report is malformed costs as much as to read a good one, and none of the limits of a
node can hold before its name is read.
"""

from dataclasses import dataclass, field

from master.sources.workers.token_bucket import TokenBucket
from topo.kit.tokens import Identity

MALFORMED_RATE = 1.0
"""Malformed reports of one sender that are read in a second; a worker of another release repeats
its own after five."""
MALFORMED_BURST = 10.0
MALFORMED_RETRY_S = 1
SENDERS_KEPT = 4096
"""Senders that are told apart; who was heard of longest ago is forgotten, and may try again."""


def sender_of(identity: Identity, address: str | None) -> str:
    """Who answers for a report: the node of a token of its own, else where it comes from.

    A shared token says of nobody who it is, nor does none.
    """
    return f"node {identity.node}" if identity.node is not None else f"address {address}"


@dataclass(slots=True)
class MalformedReports:
    """What each sender of malformed reports may still send. Times in monotonic seconds."""

    _allowances: dict[str, TokenBucket] = field(default_factory=dict)

    def has_room(self, sender: str, now_s: float) -> bool:
        """Whether a report of this sender is to be read."""
        allowance = self._allowances.get(sender)
        return allowance is None or allowance.has_one(now_s)

    def add(self, sender: str, now_s: float) -> None:
        """One more that could not be read."""
        allowance = self._allowances.pop(sender, None)
        if allowance is None:
            allowance = TokenBucket(MALFORMED_RATE, MALFORMED_BURST, now_s)
        allowance.take(now_s)
        self._allowances[sender] = allowance
        if len(self._allowances) > SENDERS_KEPT:
            del self._allowances[next(iter(self._allowances))]
