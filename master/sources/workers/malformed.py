"""Limits of malformed reports: a sender of many is refused before its body is read.

Finding that a report is malformed costs as much as reading a good one, and no limit per node can
apply before the node's name is read.
"""

from topo.kit.tokens import Identity

MALFORMED_RATE = 1.0
"""Malformed reports of one sender that are read per second; a worker of another release repeats its
own after five seconds."""
MALFORMED_BURST = 10.0
MALFORMED_RETRY_S = 1


def sender_of(identity: Identity, address: str | None) -> str:
    """Return the sender of a report: the node of its own token, else its address.

    A shared token, or none, identifies no sender.
    """
    return f"node {identity.node}" if identity.node is not None else f"address {address}"
