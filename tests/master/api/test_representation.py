"""Which representation a client takes, and which one it has."""

import pytest

from master.api.answers import accepted_encoding, has_known_tag


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        (None, "identity"),
        ("", "identity"),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        ("deflate, gzip;q=0.5", "gzip"),
        ("gzip;q=0", "identity"),
        ("gzip; q=0.0, *", "identity"),
        ("*", "gzip"),
        ("*;q=0", None),
        ("*;q=0, identity;q=0.1", "identity"),
        ("*;q=0, gzip", "gzip"),
        ("identity", "identity"),
        ("identity;q=0", None),
        ("identity;q=0, gzip;q=0", None),
        ("identity;q=0, gzip;q=0.1", "gzip"),
        ("identity;q=0, *;q=0.1", "gzip"),
        ("br, zstd", "identity"),
        ("gzip;q=much", "identity"),
        ("gzip;level=9", "gzip"),
    ],
)
def test_a_client_gets_what_it_takes(header: str | None, taken: str | None) -> None:
    assert accepted_encoding(header) == taken


@pytest.mark.parametrize(
    ("header", "known"),
    [
        (None, False),
        ("", False),
        ('"a"', True),
        ('W/"a"', True),
        ('"x", "b"', True),
        ("*", True),
        ('"ab"', False),
        ("a", True),
    ],
)
def test_a_tag_is_known_when_it_is_one_of_ours(header: str | None, known: bool) -> None:  # noqa: FBT001
    assert has_known_tag(header, "a", "b") is known
