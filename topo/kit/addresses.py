"""Addresses of peers: whether traffic stays on this machine or in known networks."""

from collections.abc import Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Network = IPv4Network | IPv6Network

_MAPPED_BITS = 96


def parse_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address, or None for a name.

    IPv6 may have brackets and a zone. An IPv4 address mapped into IPv6 becomes that IPv4 address
    (RFC 4291 2.5.5.2).
    """
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(host: str) -> bool:
    """Return whether traffic to the host, an address or a name, stays on this machine."""
    address = parse_address(host)
    if address is None:
        return host.lower().removesuffix(".") == "localhost"
    return address.is_loopback


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Parse addresses and networks such as 10.0.0.7 or 10.1.0.0/16.

    An IPv4 network mapped into IPv6 becomes that IPv4 network. Raises `ValueError` for the first
    text that is neither.
    """
    return tuple(map(_unmapped, map(ip_network, texts)))


def is_within(host: str, known: Iterable[Network]) -> bool:
    """Return whether the host is an address in one of the networks; a name is in none."""
    address = parse_address(host)
    return address is not None and any(address in network for network in known)


def _unmapped(network: Network) -> Network:
    first = getattr(network.network_address, "ipv4_mapped", None)
    if first is None or network.prefixlen < _MAPPED_BITS:
        return network
    return IPv4Network((first, network.prefixlen - _MAPPED_BITS))
