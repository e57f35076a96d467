"""Which addresses are this machine's own."""

import pytest

from topo.kit.addresses import is_loopback, is_within, parse_networks


@pytest.mark.parametrize(
    ("host", "stays"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("127.0.0.1", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("[::1]", True),
        ("::1%lo", True),
        ("::ffff:127.0.0.1", True),
        ("[::ffff:127.1.2.3]", True),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 - nobody listens there
        ("fe80::1%eth0", False),
        ("localhost.example", False),
        ("my.localhost", False),
        ("", False),
    ],
)
def test_only_loopback_keeps_what_is_sent_on_this_machine(host: str, *, stays: bool) -> None:
    assert is_loopback(host) is stays


def test_an_address_is_in_a_network_however_it_is_written() -> None:
    """A socket that takes both families shows IPv4 peers as addresses of IPv6."""
    known = parse_networks(["10.1.0.0/16", "fd00::7", "::ffff:10.2.0.7", "::ffff:10.3.0.0/112"])
    for inside in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::7%eth0", "10.2.0.7", "::ffff:10.3.4.5"):
        assert is_within(inside, known), inside
    for outside in ("10.2.0.8", "::ffff:10.4.0.1", "fd00::8", "::10.2.0.7"):
        assert not is_within(outside, known), outside


@pytest.mark.parametrize("peer", ["master", "", "10.1.0.0/16", "@abstract"])
def test_a_peer_that_is_no_address_is_in_no_network(peer: str) -> None:
    assert not is_within(peer, parse_networks(["10.1.0.0/16", "::/0", "0.0.0.0/0"]))


@pytest.mark.parametrize("text", ["10.1.0.1/16", "master", "10.0.0.0/33", ""])
def test_what_is_no_network_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_networks(["10.0.0.1", text])
