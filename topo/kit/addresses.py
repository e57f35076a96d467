"""Addresses of peers: whether what is sent there, or came from there, stays on this machine."""

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


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address, None for a name.

    IPv6 may stand in brackets and with a zone; an IPv4 address mapped into IPv6 is that IPv4 one
    (RFC 4291 2.5.5.2).
    """
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(host: str) -> bool:
    """Whether what is sent to the host, an address or a name, stays on this machine."""
    address = address_of(host)
    if address is None:
        return host.lower().removesuffix(".") == "localhost"
    return address.is_loopback


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Addresses and networks such as 10.0.0.7 or 10.1.0.0/16; raises `ValueError` for the first
    that is neither.

    A network of IPv4 that is mapped into IPv6 is that IPv4 one, as its addresses are.
    """
    return tuple(map(_unmapped, map(ip_network, texts)))


def is_within(host: str, known: Iterable[Network]) -> bool:
    """Whether the host is an address in one of the networks; a name is in none. O(networks)."""
    address = address_of(host)
    return address is not None and any(address in network for network in known)


def _unmapped(network: Network) -> Network:
    first = getattr(network.network_address, "ipv4_mapped", None)
    if first is None or network.prefixlen < _MAPPED_BITS:
        return network
    return IPv4Network((first, network.prefixlen - _MAPPED_BITS))
