"""Ports for the demo: the usual ones where they are free."""

import socket
from collections.abc import Sequence
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"


def free_ports(usual: Sequence[int]) -> tuple[int, ...]:
    """For each usual port itself, or another free one where somebody holds it.

    Nothing keeps a port free until it is used; who finds it taken then says so and ends.
    """
    with ExitStack() as held:
        return tuple(_held(port, held) for port in usual)


def _held(port: int, held: ExitStack) -> int:
    """A port bound until `held` closes, so that one call never names a port twice."""
    try:
        holder = socket.create_server((LOOPBACK, port))
    except OSError:
        holder = socket.create_server((LOOPBACK, 0))
    found: int = held.enter_context(holder).getsockname()[1]
    return found
