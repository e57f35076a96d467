"""Packed bodies: what comes out is what went in, and no more of it than may be."""

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.turns import turns_beside
from topo.kit.serving.body import (
    MOST_MEMBERS,
    STEP_BYTES,
    TooLargeError,
    UnknownCodingError,
    coding_of,
    ignore_bytes,
    unpacked,
)
from topo.model.errors import BadInputError

PLENTY = 64 << 20


def _bare(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(content) + packer.flush()


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "zlib": ("deflate", zlib.compress),
    "bare": ("deflate", _bare),
}


@pytest.mark.parametrize("packer", PACKERS)
@given(
    seed=st.binary(max_size=300),
    times=st.integers(1, 2000),
    beyond=st.integers(-1, 1),
)
async def test_what_was_packed_comes_back_up_to_the_limit(
    packer: str, seed: bytes, times: int, beyond: int
) -> None:
    coding, pack = PACKERS[packer]
    content = seed * times
    limit_bytes = len(content) - beyond
    if beyond > 0:
        with pytest.raises(TooLargeError):
            await unpacked(pack(content), coding, limit_bytes, ignore_bytes)
    else:
        assert await unpacked(pack(content), coding, limit_bytes, ignore_bytes) == content


@pytest.mark.parametrize("size", [0, 1, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 7 * STEP_BYTES])
async def test_a_content_that_ends_where_a_step_does_is_whole(size: int) -> None:
    assert await unpacked(gzip.compress(b"\0" * size), "gzip", PLENTY, ignore_bytes) == b"\0" * size


async def test_a_bomb_costs_its_limit_and_lets_others_have_their_turn() -> None:
    """Of 256 MiB it takes the steps that fit into the limit, one turn of the loop each."""
    bomb = gzip.compress(b"\0" * (256 << 20), 1)
    with turns_beside() as turns, pytest.raises(TooLargeError, match=str(16 * STEP_BYTES)):
        await unpacked(bomb, "gzip", 16 * STEP_BYTES, ignore_bytes)
    assert 15 <= turns.number <= 17


@pytest.mark.parametrize("members", [2, MOST_MEMBERS])
async def test_a_gzip_of_several_parts_is_one_content(members: int) -> None:
    assert (
        await unpacked(gzip.compress(b"abc") * members, "gzip", PLENTY, ignore_bytes)
        == b"abc" * members
    )


BROKEN = {
    "many-parts": (gzip.compress(b"") * (MOST_MEMBERS + 1), "gzip"),
    "cut-gzip": (gzip.compress(b"abc")[:-1], "gzip"),
    "gzip-and-more": (gzip.compress(b"abc") + b"more", "gzip"),
    "two-zlib": (zlib.compress(b"abc") * 2, "deflate"),
    "cut-zlib": (zlib.compress(b"abc")[:-1], "deflate"),
    "gzip-as-deflate": (gzip.compress(b"abc"), "deflate"),
    "zlib-as-gzip": (zlib.compress(b"abc"), "gzip"),
    "no-gzip": (b"no gzip", "gzip"),
    "no-deflate": (b"\x00", "deflate"),
}
"""By name: a gzip header has the time in it."""


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_broken_is_refused_with_the_fix(name: str) -> None:
    packed, coding = BROKEN[name]
    with pytest.raises(BadInputError) as caught:
        await unpacked(packed, coding, PLENTY, ignore_bytes)
    refusal = caught.value.refusal
    assert (refusal.where, refusal.fix) == ("Content-Encoding", "send a JSON object as it is")


@pytest.mark.parametrize(
    ("values", "coding"),
    [
        ((), ""),
        (("identity",), ""),
        (("identity, Identity", ""), ""),
        (("GZIP",), "gzip"),
        (("x-gzip",), "gzip"),
        (("identity", "deflate"), "deflate"),
    ],
)
def test_one_coding_is_taken(values: tuple[str, ...], coding: str) -> None:
    assert coding_of(values) == coding


@pytest.mark.parametrize("values", [("br",), ("gzip, gzip",), ("gzip", "deflate"), ("z" * 9999,)])
def test_several_codings_and_unknown_ones_are_refused_in_short(values: tuple[str, ...]) -> None:
    with pytest.raises(UnknownCodingError) as caught:
        coding_of(values)
    assert "gzip or deflate" in caught.value.refusal.fix
    assert len(str(caught.value)) < 256
