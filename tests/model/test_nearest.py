"""The word that was probably meant, among few and among many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.model.nearest import alike, did_you_mean, nearest

WORD = st.text("abcde-01", min_size=1, max_size=12)


@given(st.lists(WORD, min_size=1), st.data())
def test_a_known_word_is_its_own_nearest_in_any_case(known, data):
    word = data.draw(st.sampled_from(known))
    assert nearest(word.upper(), known) == word


@given(WORD, st.lists(WORD))
def test_what_is_named_is_always_a_known_word_or_nothing(word, known):
    assert nearest(word, known) in {*known, ""}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("swithcbox", "did you mean switchbox?"),
        ("SWITCHBOX", "did you mean switchbox?"),
        ("xyz", "write one of two"),
        ("dragonfly" * 100_000, "write one of two"),
    ],
)
def test_the_hint_names_the_nearest_or_says_what_else_to_do(word: str, said: str) -> None:
    assert did_you_mean(word, ("dragonfly", "switchbox"), "write one of two") == said


def test_a_likeness_bounds_how_different_the_word_may_be() -> None:
    assert nearest("serial", ["serial_number"], 0.5) == "serial_number"
    assert nearest("serial", ["serial_number"], 0.85) == ""


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("node-sample4711", "node-sample04711"),
        ("mode-sample01234", "node-sample01234"),
        ("node-sampel07777", "node-sample07777"),
        ("NODE-SAMPLE00042", "node-sample00042"),
        ("node-sample05000x", "node-sample05000"),
    ],
)
def test_the_nearest_of_ten_thousand_names_is_found_among_a_few(slip: str, meant: str) -> None:
    names = [f"node-sample{number:05}" for number in range(10_000)]
    few = alike(slip, names)
    assert len(few) <= 50
    assert meant in few
