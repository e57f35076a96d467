"""Which representation a client takes, and which one it has."""

import pytest

from master.api.representation import accepts_gzip, is_known


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, *", False),
        ("*", True),
        ("*;q=0", False),
        ("identity", False),
        ("br, zstd", False),
        ("gzip;q=much", False),
        ("gzip;level=9", True),
    ],
)
def test_gzip_is_sent_to_those_who_take_it(header: str | None, taken: bool) -> None:  # noqa: FBT001
    assert accepts_gzip(header) is taken


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
    assert is_known(header, "a", "b") is known
