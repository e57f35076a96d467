"""Ports that stay a run's own while nobody listens: a killed process needs its port again."""

import fcntl
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FIRST, _BLOCKS, _EACH = 20_000, 1000, 3
"""Below the ports that Linux gives to connections (32768 and up): one would take a free port."""


@contextmanager
def own_ports() -> Iterator[tuple[int, ...]]:
    """Three free ports of 127.0.0.1 that no other run takes inside the block."""
    for block in range(_BLOCKS):
        ports = tuple(range(_FIRST + _EACH * block, _FIRST + _EACH * (block + 1)))
        with Path(tempfile.gettempdir(), f"topo-chaos-{ports[0]}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if all(_is_free(port) for port in ports):
                yield ports
                return
    raise RuntimeError(f"no ports are free from {_FIRST} on")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
