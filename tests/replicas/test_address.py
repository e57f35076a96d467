"""Where the leader is said to be: an address of a pod, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.replicas.address import LeaderAddress, Ports, annotations, leader_address

DOMAIN = "metax-tech.com"
OURS = Ports("10.0.0.7", 9001, 10001, "http", "https")


@pytest.mark.parametrize("host", ["10.0.0.8", "fd00::8"])
def test_what_a_leader_writes_is_what_a_follower_reads(host: str) -> None:
    written = annotations(DOMAIN, Ports(host, 9001, 10001))
    shown = f"[{host}]" if ":" in host else host
    assert leader_address(written, DOMAIN, OURS) == LeaderAddress(
        f"http://{shown}:9001", f"https://{shown}:10001"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.0.0.8",
        "10.0.0.8:0",
        "10.0.0.8:65536",
        "10.0.0.8:٣",
        "evil.example:9001",
        "10.0.0.8:9001/path",
        "user@10.0.0.8:9001",
        "http://10.0.0.8:9001",
        "127.0.0.1:9001",
        "[::1]:9001",
        "169.254.169.254:80",
        "0.0.0.0:9001",
        "224.0.0.1:9001",
        "[fe80::1%eth0]:9001",
        "[::ffff:169.254.169.254]:80",
        "[::ffff:127.0.0.1]:9001",
        "[::ffff:7f00:1]:9001",
        "[::ffff:0.0.0.0]:9001",
        "[::169.254.169.254]:80",
        "[64:ff9b::169.254.169.254]:80",
        "[2002:a9fe:a9fe::1]:80",
        "[fec0::1]:9001",
        "[fd00::8%eth0]:9001",
        "[ff02::1]:9001",
        "240.0.0.1:9001",
        "255.255.255.255:9001",
        "8.8.8.8:9001",
        "[2606:4700::1111]:9001",
        "[::ffff:8.8.8.8]:9001",
        "[::ffff:10.0.0.8]:9001",
        "[::ffff:a00:8]:9001",
    ],
)
def test_what_is_no_address_of_a_pod_is_none_of_a_leader(text: str) -> None:
    """Not of this machine either, nor where clouds keep their secrets."""
    written = {f"{DOMAIN}/address": text, f"{DOMAIN}/reports-address": text}
    assert leader_address(written, DOMAIN, OURS) == LeaderAddress()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("100.64.0.8:9001", "http://100.64.0.8:9001"),
        ("[fd00:0:0::8]:9001", "http://[fd00::8]:9001"),
    ],
)
def test_an_address_of_a_pod_is_called_in_its_plain_form(text: str, url: str) -> None:
    assert leader_address({f"{DOMAIN}/address": text}, DOMAIN, OURS).api == url


@pytest.mark.parametrize(("own", "other"), [("8.8.4.4", "8.8.8.8"), ("2606:4700::1", "1.1.1.1")])
def test_pods_with_public_addresses_find_each_other(own: str, other: str) -> None:
    written = annotations(DOMAIN, Ports(other, 9001, 10001))
    assert leader_address(written, DOMAIN, Ports(own, 1, 2)).api == f"http://{other}:9001"


def test_an_extender_is_asked_on_the_host_of_the_leaders_api_alone() -> None:
    """A leader of an earlier version leaves the address of the one before as it is."""
    written = annotations(DOMAIN, Ports("10.0.0.8", 9001, 10001, extender=3456))
    assert leader_address(written, DOMAIN, OURS).extender == "http://10.0.0.8:3456"
    left = {**written, f"{DOMAIN}/address": "10.0.0.9:9001"}
    assert leader_address(left, DOMAIN, OURS).extender == ""
    without = annotations(DOMAIN, Ports("10.0.0.8", 9001, 10001))
    assert leader_address({**written, **without}, DOMAIN, OURS).extender == ""


def test_masters_on_one_machine_find_each_other() -> None:
    ours = Ports("127.0.0.1", 1, 2)
    written = annotations(DOMAIN, Ports("127.0.0.2", 9001, 10001))
    assert leader_address(written, DOMAIN, ours).api == "http://127.0.0.2:9001"
    elsewhere = annotations(DOMAIN, Ports("10.0.0.8", 9001, 10001))
    assert leader_address(elsewhere, DOMAIN, ours) == LeaderAddress(), "and none beyond it"


def test_a_master_whose_own_address_is_mapped_into_ipv6_writes_it_in_its_plain_form() -> None:
    written = annotations(DOMAIN, Ports("::ffff:10.0.0.8", 9001, 10001))
    assert leader_address(written, DOMAIN, OURS).api == "http://10.0.0.8:9001"


@given(st.text(max_size=40) | st.none() | st.integers())
def test_whatever_is_written_is_an_address_or_none(text: object) -> None:
    api = leader_address({f"{DOMAIN}/address": text}, DOMAIN, OURS).api
    assert api == "" or api.startswith("http://")
