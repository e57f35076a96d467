"""Reports that cannot be read: who sends many of them is answered without reading on.

To find that a report is malformed costs as much as to read a good one, and none of the limits of a
node can hold before its name is read.
"""

from topo.kit.tokens import Identity

MALFORMED_RATE = 1.0
"""Malformed reports of one sender that are read in a second; a worker of another release repeats
its own after five."""
MALFORMED_BURST = 10.0
MALFORMED_RETRY_S = 1


def sender_of(identity: Identity, address: str | None) -> str:
    """Who answers for a report: the node of a token of its own, else where it comes from.

    A shared token says of nobody who it is, nor does none.
    """
    return f"node {identity.node}" if identity.node is not None else f"address {address}"
