"""The index of which keys carry which value is the plain table of pairs, however it came about."""

from hypothesis import given
from hypothesis import strategies as st

from topo.discovery.groups.inverted_index import PLACEHOLDER_ABOVE, InvertedIndex

pairs = st.tuples(st.sampled_from("xyz"), st.integers(0, PLACEHOLDER_ABOVE + 2))


@given(st.lists(pairs))
def test_the_index_is_the_table_of_its_pairs(toggled):
    """A pair that is there goes, one that is not comes; after each, every view agrees."""
    index, table = InvertedIndex[str, int](), set[tuple[str, int]]()
    for value, key in toggled:
        if (value, key) in table:
            index.discard((value,), key)
        else:
            index.add((value,), key)
        table ^= {(value, key)}
        of = {v: {c for known, c in table if known == v} for v in "xyz"}
        assert {v: set(index.keys_of(v)) for v in "xyz"} == of
        assert {v: {c} for v, c in index.sole.items()} == {
            v: cs for v, cs in of.items() if len(cs) == 1
        }
        assert index.several == {v: cs for v, cs in of.items() if len(cs) > 1}
        assert index.keys_of_any("xy") == of["x"] | of["y"]


@given(st.integers(1, 2 * PLACEHOLDER_ABOVE))
def test_a_crowd_says_nothing(number):
    """Up to eight keys mean something; what more of them carry is a placeholder."""
    index = InvertedIndex[str, int]()
    for key in range(number):
        index.add(("0",), key)
        index.add(("0",), key)
    assert len(index.keys_of("0")) == number
    assert len(index.few_keys_of("0")) == (number if number <= PLACEHOLDER_ABOVE else 0)
