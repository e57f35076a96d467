"""Ports for the demo: the usual ones where they are free."""

import socket
from collections.abc import Sequence
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"


def free(usual: Sequence[int]) -> tuple[int, ...]:
    """For each usual port itself, or another free one where somebody holds it.

    Nothing keeps a port free until it is used; who finds it taken then says so and ends.
    """
    with ExitStack() as held:
        return tuple(_held(port, held) for port in usual)


def _held(port: int, held: ExitStack) -> int:
    """A port bound until `held` closes, so that one call never names a port twice."""
    for candidate in (port, 0):
        attempt = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((LOOPBACK, candidate))
        except OSError:
            if candidate == 0:
                raise
        else:
            found: int = attempt.getsockname()[1]
            return found
    raise AssertionError  # pragma: no cover - port 0 binds or raises
