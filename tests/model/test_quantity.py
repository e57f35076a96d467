"""Amounts as Kubernetes writes them are the numbers that it means."""

import sys
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.gangs.decisions.resource_shortage import amount_in_words
from topo.model.quantity import MAX_CHARS, MOST, thousandths, whole


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8), ("0", 0), ("+4", 4), ("1k", 1000), ("8e0", 8), ("1e3", 1000), ("1E3", 1000),
        ("80e-1", 8), ("1500m", 2), ("1m", 1), ("100n", 1), ("1u", 1), (".5", 1), ("5.", 5),
        ("1.5k", 1500), ("1Ki", 1024), ("0.5Ki", 512), ("1E", MOST), ("1e18", MOST), ("9Ei", MOST),
        ("1e999", MOST), ("0e999", 0), ("1e-999", 1),
    ],
)  # fmt: skip
def test_a_quantity_is_a_number_in_every_way_that_kubernetes_writes_one(text: str, number: int):
    assert whole(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "-1", "eight", "1e", "1e1000000000", "8 ", "٨", "1kk", "0x8", "1.2.3", ".", "k", "1_000"],
)
def test_what_is_no_quantity_is_told_from_zero(text: str):
    assert whole(text) is None


@given(
    st.decimals(0, 10**6, places=4, allow_nan=False),
    st.sampled_from([("", 0), ("k", 3), ("m", -3), ("u", -6), ("e2", 2), ("E-2", -2)]),
)
def test_a_part_of_a_unit_counts_as_a_whole_one(number: Decimal, unit: tuple[str, int]):
    exact = (number * Decimal(10) ** unit[1]).to_integral_value(ROUND_CEILING)
    assert whole(f"{number:f}{unit[0]}") == min(int(exact), MOST)


def test_a_quantity_beyond_those_that_the_api_server_keeps_is_the_largest_of_them():
    assert thousandths("1e999") == thousandths("9223372036854775808") == 1000 * 2**63
    assert amount_in_words("memory", thousandths("1e999") or 0) == "8Ei"


@pytest.mark.parametrize("read", [whole, thousandths])
def test_a_long_text_is_no_quantity_and_is_not_kept(read: Callable[[str], int | None]) -> None:
    """The caches of quantities would hold a thousand texts of megabytes."""
    longest = "+" + "1" * 32 + "." + "1" * 32 + "e+999"
    assert read(longest) is not None
    assert len(longest) <= MAX_CHARS
    before = sys.getrefcount(text := "1" * (MAX_CHARS + 1))
    assert read(text) is None
    assert sys.getrefcount(text) == before
