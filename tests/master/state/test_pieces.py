"""The state in pieces: what is joined is what was split, or a refusal of the whole set."""

import hashlib
import zlib
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.discovery.core import built_state
from master.state.document import SavedDiscovery, State, Unusable, decode
from master.state.pieces import MAX_PIECE_BYTES, index_of, join, split
from master.state.saving import StateStore
from topo.discovery.modes import Mode
from topo.model.errors import Refusal
from topo.model.ids import Generation
from topo.placement.booking.holds import HoldsMemory

LIMIT = 100
CONTENT = hashlib.shake_256(b"7").digest(400)
"""Random bytes do not get smaller: several pieces of the limit."""


def pieces(content: bytes = CONTENT, generation: int = 7) -> list[bytes]:
    return split(content, Generation(generation), LIMIT)


def forged(packed: bytes) -> bytes:
    """A piece whose index is right, of bytes that are no compressed state."""
    (real,) = split(b"", Generation(7))
    head = real[: -len(zlib.compress(b""))]
    before = hashlib.sha256(real[len(head) :]).digest()
    return head.replace(before, hashlib.sha256(packed).digest()) + packed


def refused(given: list[bytes]) -> str:
    found = join(given)
    assert isinstance(found, Refusal)
    assert found.where
    assert found.fix
    return found.what


@given(st.binary(max_size=2000), st.integers(64, 300), st.randoms())
def test_what_is_joined_in_any_order_is_what_was_split(content, limit, order):
    made = split(content, Generation(3), limit)
    assert all(len(piece) <= limit for piece in made)
    order.shuffle(made)
    assert join(made) == content


@given(st.data())
def test_a_set_with_any_piece_missing_is_refused_whole_and_the_piece_named(data):
    made = pieces()
    lost = data.draw(st.integers(0, len(made) - 1))
    what = refused(made[:lost] + made[lost + 1 :])
    assert what == f"1 of {len(made)} pieces are missing: number {lost}"


@given(st.data())
def test_a_piece_of_another_generation_refuses_the_set_and_names_both(data):
    made, newer = pieces(), pieces(generation=8)
    at = data.draw(st.integers(1, len(made) - 1))
    assert refused([*made[:at], *newer[at:]]) == "pieces of generations 7 and 8"


def test_two_saves_of_one_generation_are_told_apart() -> None:
    """Holds change without the tree."""
    other = hashlib.shake_256(b"8").digest(400)
    assert refused([*pieces()[:1], *pieces(other)[1:]]) == "pieces of two saves of generation 7"


def test_a_piece_given_twice_is_refused() -> None:
    made = pieces()
    assert refused([*made, made[0]]) == "a piece that is there twice"


@given(st.data())
def test_a_damaged_piece_is_never_taken_for_a_state(data):
    made = pieces()
    number = data.draw(st.integers(0, len(made) - 1))
    at = data.draw(st.integers(0, len(made[number]) - 1))
    damaged = bytearray(made[number])
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    found = join([*made[:number], bytes(damaged), *made[number + 1 :]])
    assert isinstance(found, Refusal)


@pytest.mark.parametrize("given", [[], [b""], [b"x" * 200], [*pieces(), b"x"]])
def test_what_is_no_piece_is_refused(given: list[bytes]) -> None:
    assert "no piece of a state" in refused(given)


def test_a_state_that_unpacks_to_more_than_the_limit_is_refused_and_never_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = split(b"\0" * 5000, Generation(1))
    monkeypatch.setattr("master.state.pieces.MAX_DOCUMENT_BYTES", 4999)
    assert "larger than 4999 bytes" in refused(made)
    with pytest.raises(ValueError, match="5000 bytes, and at most 4999"):
        split(b"\0" * 5000, Generation(1))


PACKED = zlib.compress(b"a state that somebody wrote")


@pytest.mark.parametrize(
    ("packed", "what"),
    [
        (b"garbage", "cannot be unpacked"),
        (b"", "ends too soon"),
        (PACKED[:-5], "ends too soon"),
        (PACKED[:-1] + bytes([PACKED[-1] ^ 1]), "cannot be unpacked"),
    ],
    ids=["other", "nothing", "cut", "damaged"],
)
def test_pieces_with_the_digest_of_what_is_no_state_are_refused(packed: bytes, what: str) -> None:
    """A digest proves who counted it, not who wrote it."""
    assert what in refused([forged(packed)])


class PieceStore(StateStore):
    """A `StateStore` whose only own business is to put small values somewhere."""

    name = "pieces"
    is_new = False
    is_shared = False
    unusable_holds: Mapping[str, str] = MappingProxyType({})

    def __init__(self) -> None:
        self.values: dict[int, bytes] = {}
        self._saved_at_s: float | None = None

    async def save(self, discovery: SavedDiscovery, mode: Mode, holds: HoldsMemory) -> float:
        content = discovery.with_holds(mode, holds)
        self.values = dict(enumerate(split(content, discovery.generation, LIMIT)))
        self._saved_at_s = discovery.saved_at_s
        return 0.0

    async def load(self, mode: Mode, now_s: float) -> State | HoldsMemory | None:  # noqa: ARG002
        content = join(self.values.values())
        found = None if isinstance(content, Refusal) else decode(content, mode)
        if isinstance(found, Unusable):
            return found.rest
        self._saved_at_s = None if found is None else found.saved_at_s
        return found

    def age_s(self, now_s: float) -> float | None:
        return None if self._saved_at_s is None else now_s - self._saved_at_s

    def close(self) -> None:
        self.values.clear()


async def test_a_store_of_small_values_needs_nothing_else() -> None:
    store = PieceStore()
    assert await store.load(Mode.SWITCHBOX, 0.0) is None
    memory = built_state(20).persistent_state()
    discovery = SavedDiscovery.of(memory, 100.0)
    await store.save(discovery, Mode.SWITCHBOX, HoldsMemory(1, ()))
    assert len(store.values) > 10
    state = await store.load(Mode.SWITCHBOX, 160.0)
    assert isinstance(state, State)
    assert (state.memory, store.age_s(160.0)) == (memory, 60.0)
    del store.values[3]
    assert await store.load(Mode.SWITCHBOX, 160.0) is None


@pytest.mark.slow
def test_ten_thousand_nodes_are_a_few_pieces_that_a_config_map_takes() -> None:
    memory = built_state(10_000).persistent_state()
    discovery = SavedDiscovery.of(memory, 1.8e9)
    content = discovery.with_holds(Mode.SWITCHBOX, HoldsMemory(1, ()))
    made = split(content, discovery.generation)
    assert len(memory.nodes) == 10_000
    assert len(made) <= 3
    assert all(len(piece) <= MAX_PIECE_BYTES == 1 << 20 for piece in made)
    assert {index.count for piece in made if (index := index_of(piece))} == {len(made)}
    joined = join(made)
    assert joined == content
    state = decode(content, Mode.SWITCHBOX)
    assert isinstance(state, State)
    assert state.memory == memory
