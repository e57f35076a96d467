"""The leader's address as annotations of the Lease, written and parsed. Pure.

Whoever can write the Lease decides where followers send the tokens of workers, so little is
believed: an address and a port, no name and no path, of a range in which pods are, and a public one
only where ours is public. An address of this machine is one only where ours is, and an IPv4 address
mapped into IPv6 is none. Whether a master has the address is asked in `leader_pod`. The scheme is
that of our own settings: all masters have the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from topo.kit.addresses import parse_address

Address = IPv4Address | IPv6Address
API, REPORTS, EXTENDER = "address", "reports-address", "extender-address"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where this master listens on its pod's address, and with TLS or without.

    `extender` is 0 where schedulers ask nothing.
    """

    host: str
    api: int
    reports: int
    api_scheme: str = "http"
    reports_scheme: str = "http"
    extender: int = 0
    extender_scheme: str = "http"


@dataclass(frozen=True, slots=True)
class LeaderAddress:
    """The base URLs of the leader, all of one host; empty where one is not known."""

    api: str = ""
    reports: str = ""
    extender: str = ""

    @property
    def addresses(self) -> frozenset[Address]:
        """The addresses in the URLs."""
        hosts = (urlsplit(url).hostname for url in (self.api, self.reports))
        return frozenset(ip_address(host) for host in hosts if host)

    @property
    def shows_certificate(self) -> bool:
        """Whether each URL is of TLS: the masters' certificate is asked for before all else."""
        urls = (url for url in (self.api, self.reports, self.extender) if url)
        return all(url.startswith("https:") for url in urls)


def annotations(domain: str, ports: Ports) -> dict[str, str]:
    """Return the annotations of a leader."""
    address = parse_address(ports.host)  # a mapped one is written as what it is
    name = ports.host if address is None else str(address)
    host = f"[{name}]" if ":" in name else name
    said = {API: ports.api, REPORTS: ports.reports, EXTENDER: ports.extender}
    return {f"{domain}/{name}": f"{host}:{port}" if port else "" for name, port in said.items()}


def leader_address(written: Mapping[str, object], domain: str, ours: Ports) -> LeaderAddress:
    """Return the address in a leader's annotations, as far as it can be another master's."""
    api, reports, extender = (
        _socket(written.get(f"{domain}/{name}"), ours) for name in (API, REPORTS, EXTENDER)
    )
    if _host(extender) != _host(api):  # left by another leader, before one that knows no extender
        extender = ""
    return LeaderAddress(
        api and f"{ours.api_scheme}://{api}",
        reports and f"{ours.reports_scheme}://{reports}",
        extender and f"{ours.extender_scheme}://{extender}",
    )


def _socket(text: object, ours: Ports) -> str:
    """Return `10.0.0.7:9001` or `[fd00::7]:9001`; empty for anything else."""
    host, _, port = str(text).rpartition(":")
    found, own = parse_address(host), parse_address(ours.host)
    if found is None or own is None or "%" in host:  # a zone is one of this machine's interfaces
        return ""
    if found.version == 4 and ":" in host:  # mapped into IPv6, which no master writes
        return ""
    if not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
        return ""
    if not _may_be_a_master(found, own):
        return ""
    return f"[{found}]:{int(port)}" if found.version == 6 else f"{found}:{int(port)}"


def _host(socket: str) -> str:
    return socket.rpartition(":")[0]


def _may_be_a_master(found: Address, own: Address) -> bool:
    """Return whether another master may have the address; of our own it is known that one has."""
    if own.is_loopback:  # all masters are on this machine
        return found.is_loopback
    # Ranges that lead to IPv4 addresses are reserved (::/8, with NAT64), or 6to4 and Teredo.
    if isinstance(found, IPv6Address) and (found.is_site_local or found.sixtofour or found.teredo):
        return False
    if found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified:
        return False
    return not found.is_reserved and (own.is_global or not found.is_global)
