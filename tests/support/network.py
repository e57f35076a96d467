"""A network of its own for processes of a test: its one address beyond the loopback is nobody's."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BEYOND = "192.0.2.7"
"""An address of documentation (RFC 5737), put on the loopback device of the network."""
_SETUP = f"ip link set lo up && ip addr add {BEYOND}/32 dev lo && echo up && exec sleep infinity"


@contextmanager
def own_network() -> Iterator[tuple[str, ...]]:
    """What to put before a command that shall run there; skips the test where none can be made."""
    try:
        holder = subprocess.Popen(
            ["unshare", "--map-root-user", "--net", "sh", "-c", _SETUP],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare (util-linux) to make a network with")
    with holder:
        try:
            assert holder.stdout is not None
            assert holder.stderr is not None
            if holder.stdout.readline() != "up\n":
                pytest.skip(f"no network of its own: {holder.stderr.readline().strip()}")
            target = f"--target={holder.pid}"
            yield ("nsenter", target, "--user", "--net", "--preserve-credentials", "--")
        finally:
            holder.kill()
