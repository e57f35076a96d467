"""What an address says about the way to it."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether what is sent to the host stays on this machine; IPv6 may stand in brackets."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
