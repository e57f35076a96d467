"""Ports that nobody listens on."""

from collections.abc import Sequence

from topo.cli.demo.plan import claimed_ports


def free_ports(usual: Sequence[int]) -> tuple[int, ...]:
    """Ports as the demo finds them, which others may take from here on; 0 asks for any."""
    with claimed_ports(usual) as ports:
        return ports
