"""What is served is trusted at every moment, and renewed long before it ends."""

import datetime as dt

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from master.admission.certificates import Pair, issue, read_pair
from master.admission.rotation import (
    CERT,
    KEY,
    NEXT_CERT,
    NEXT_KEY,
    TRUSTED,
    TRUSTED_S,
    Change,
    Rotation,
    read_kept,
)
from topo.model.errors import Refusal

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
NAMES = ("webhook.topo.svc", "webhook")
ROTATION = Rotation(names=NAMES, life=90 * DAY)


def after(data: dict[str, bytes], change: Change | None) -> dict[str, bytes]:
    merged = {**data, **(change or {})}
    return {name: value for name, value in merged.items() if value is not None}


def fresh() -> dict[str, bytes]:
    return after({}, ROTATION.step(read_kept({}, NAMES), NOW, 0.0))


def is_verified(chain: bytes, trusted: bytes, at: dt.datetime) -> bool:
    store = Store(x509.load_pem_x509_certificates(trusted))
    leaf = x509.load_pem_x509_certificates(chain)[0]
    verifier = PolicyBuilder().store(store).time(at).build_server_verifier(x509.DNSName(NAMES[0]))
    return bool(verifier.verify(leaf, []))


def test_where_nothing_is_kept_a_pair_is_made_that_verifies() -> None:
    data = fresh()
    assert set(data) == {CERT, KEY, TRUSTED}
    assert is_verified(data[CERT], data[TRUSTED], NOW)


def test_nothing_is_done_in_the_first_two_thirds_of_its_life() -> None:
    kept = read_kept(fresh(), NAMES)
    assert all(ROTATION.step(kept, NOW + n * DAY, 1e9) is None for n in range(59))


def test_a_following_pair_serves_only_after_it_was_trusted_for_long_enough() -> None:
    data, late = fresh(), NOW + 61 * DAY
    former = data[CERT]
    data = after(data, ROTATION.step(read_kept(data, NAMES), late, 1e9))
    assert data[CERT] == former
    assert is_verified(data[NEXT_CERT], data[TRUSTED], late)
    assert is_verified(former, data[TRUSTED], late)
    assert ROTATION.step(read_kept(data, NAMES), late, TRUSTED_S - 1) is None
    following = data[NEXT_CERT]
    data = after(data, ROTATION.step(read_kept(data, NAMES), late, TRUSTED_S))
    assert data[CERT] == following
    assert NEXT_CERT not in data
    assert NEXT_KEY not in data
    assert is_verified(former, data[TRUSTED], late), "some masters still serve it"
    assert ROTATION.step(read_kept(data, NAMES), late, 1e9) is None


def test_authorities_do_not_gather() -> None:
    data, now = fresh(), NOW
    for _ in range(5):
        now += 61 * DAY
        for _ in range(2):
            data = after(data, ROTATION.step(read_kept(data, NAMES), now, TRUSTED_S))
    assert len(x509.load_pem_x509_certificates(data[TRUSTED])) == 2


@pytest.mark.parametrize(
    "broken",
    [
        {CERT: b"", KEY: b""},
        {CERT: b"no PEM", KEY: b"no PEM"},
        {KEY: issue(NAMES, NOW, DAY).key},
        {CERT: issue(("other",), NOW, DAY).chain},
        {},
    ],
)
def test_what_cannot_serve_is_replaced_at_once(broken: dict[str, bytes]) -> None:
    at = NOW if broken else NOW + 91 * DAY
    data = after(fresh() | broken, ROTATION.step(read_kept(fresh() | broken, NAMES), at, 0.0))
    assert is_verified(data[CERT], data[TRUSTED], at)


def test_a_clock_that_is_an_hour_behind_takes_a_new_certificate() -> None:
    data = fresh()
    assert is_verified(data[CERT], data[TRUSTED], NOW - dt.timedelta(minutes=59))


def test_a_pair_for_other_names_is_refused_with_the_names_that_are_missing() -> None:
    pair = issue(("other.topo.svc",), NOW, DAY)
    refused = read_pair(pair.chain, pair.key, NAMES)
    assert isinstance(refused, Refusal)
    assert "webhook.topo.svc" in refused.what


def test_no_key_shows_where_a_pair_is_printed() -> None:
    pair = issue(NAMES, NOW, DAY)
    assert isinstance(pair, Pair)
    assert "PRIVATE" not in repr(pair)
