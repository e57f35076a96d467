"""The moments that are kept are those that were, within bytes and age, however long it goes on."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.history.forests import forests
from tests.history.test_edits import cut
from tests.publish.forests import VENDOR
from topo.history.ring import MAX_EDITS, Moment, Piece, Ring, counted, piece, rebuild, thin
from topo.history.rows import BrokenEditError
from topo.model.forest import Forest
from topo.model.ids import Generation
from topo.model.rest.generation_id import GenerationId

MIB = 1 << 20
FLAPPING = (VENDOR, cut(VENDOR))


class Told:
    """A ring that is told of one forest after the other, as a master tells it."""

    def __init__(self, limit_bytes: int = MIB, age_s: float = 3600.0) -> None:
        self.ring = Ring(limit_bytes, age_s)
        self.forest = Forest()
        self.all: dict[tuple[str, int], Forest] = {}

    def tell(self, forest: Forest, at_s: float, run: str = "aaaaaaaa") -> None:
        generation = Generation(len(self.all) + 1)
        old = None if self.ring.wants_whole else self.forest
        self.ring.add(piece(Moment(generation, run, at_s, {"node-status": 1}), old, forest))
        self.forest = self.all[run, generation] = forest

    def check(self) -> None:
        """Each moment is rebuilt as it was, and the bytes are those of the pieces."""
        pieces = self.ring.pieces
        for place in range(0, len(pieces), 1 + len(pieces) // 50):
            moment = pieces[place].moment
            assert rebuild(self.ring.pieces_for(place)) == self.all[moment.run, moment.generation]
            assert len(self.ring.pieces_for(place)) <= MAX_EDITS + 1
        assert self.ring.held_bytes == sum(each.held_bytes for each in self.ring.pieces)


@given(st.lists(st.tuples(forests, st.floats(0, 100)), max_size=4))
def test_every_moment_is_rebuilt_as_it_was(life):
    """Any forests after each other, at any times of a clock that may be set back."""
    told = Told()
    for forest, at_s in life:
        told.tell(forest, at_s)
    told.check()
    times = [each.moment.at_s for each in told.ring.pieces]
    assert times == sorted(times)
    assert len(times) == len(life)
    assert told.ring.dropped == {"age": 0, "bytes": 0}


def test_a_cable_that_flaps_all_the_time_stays_within_the_bytes():
    """Once a second for an hour: the newest stay, and the oldest that is kept is rebuilt still."""
    told = Told(limit_bytes=MIB, age_s=7 * 86400.0)
    for second in range(3600):
        told.tell(FLAPPING[second % 2], float(second))
    assert MIB / 2 < told.ring.held_bytes <= MIB
    assert told.ring.moment(len(told.ring) - 1).at_s == 3599
    assert told.ring.dropped == {"age": 0, "bytes": 3600 - len(told.ring)}
    told.check()


def test_what_is_older_than_the_age_goes_but_what_was_so_at_that_age_stays():
    """The picture of an hour ago is known for as long as an hour is kept."""
    told = Told(age_s=3600.0)
    for minute in range(1000):
        told.tell(FLAPPING[minute % 2], minute * 60.0)
        assert told.ring.at(max(0.0, minute * 60.0 - 3600.0)) is not None
    assert len(told.ring) < 60 + MAX_EDITS + 2
    assert told.ring.dropped == {"age": 1000 - len(told.ring), "bytes": 0}
    told.check()


def test_a_forest_larger_than_all_that_may_be_held_is_not_held():
    """The bytes are a limit of what is held, not a wish."""
    told = Told(limit_bytes=700)
    told.tell(VENDOR, 1.0)
    assert (len(told.ring), told.ring.held_bytes, told.ring.newest) == (0, 0, None)
    assert told.ring.wants_whole


def test_a_moment_is_found_by_time_and_by_generation_of_its_run():
    """The one that was so then; None before the first, and for a run that is not kept."""
    told = Told()
    for at_s, run in ((10.0, "aaaaaaaa"), (20.0, "aaaaaaaa"), (30.0, "bbbbbbbb")):
        told.tell(VENDOR, at_s, run)
    ring = told.ring
    assert [ring.at(at_s) for at_s in (9.9, 10.0, 19.0, 20.0, 99.0)] == [None, 0, 0, 1, 2]
    assert [ring.of(GenerationId(each)) for each in (0, 1, 2, 3, 9)] == [None, 0, 1, 2, 2]
    assert ring.of(GenerationId(9, "aaaaaaaa")) == 1
    assert ring.of(GenerationId(9, "cccccccc")) is None


def test_a_clock_that_is_set_back_leaves_no_moment_in_the_future():
    """What was kept before counts as of then; order and content stay."""
    told = Told()
    for at_s in (10.0, 9000.0, 50.0):
        told.tell(FLAPPING[int(at_s) % 2], at_s)
    assert [each.moment.at_s for each in told.ring.pieces] == [10.0, 50.0, 50.0]
    told.check()


@pytest.mark.parametrize(
    "content", [b"", b"no zlib", piece(Moment(Generation(1), "", 0.0, {}), VENDOR, VENDOR).content]
)
def test_content_that_is_none_is_refused(content):
    """Of another forest, cut short, or no content at all."""
    with pytest.raises(BrokenEditError):
        rebuild((Piece(Moment(Generation(1), "", 0.0, {}), is_whole=True, content=content),))


def test_a_ring_does_not_begin_with_an_edit():
    """There is nothing that it would be an edit of."""
    edit = piece(Moment(Generation(1), "", 0.0, {}), VENDOR, VENDOR)
    with pytest.raises(BrokenEditError):
        Ring(MIB, 60.0).add(edit)


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 12))
def test_a_thinned_list_has_all_changes_and_the_last_moment(changes, limit):
    """However few are told, none is lost and each stands for what comes before it."""
    pieces = [
        Piece(Moment(Generation(at), "", float(at), {"node-status": n}), is_whole=True, content=b"")
        for at, n in enumerate(changes)
    ]
    found = thin(pieces, limit)
    assert len(found) == min(limit, len(pieces))
    assert sum(each.changes["node-status"] for each, _ in found) == sum(changes)
    assert sum(stands_for for _, stands_for in found) == len(pieces)
    assert all(one.at_s < other.at_s for (one, _), (other, _) in pairwise(found))
    assert not found or found[-1][0].generation == len(pieces) - 1


def test_changes_are_counted_by_their_kind():
    """None of a kind is not told."""
    assert dict(counted(())) == {}
