"""The index of who carries which value is the plain table of pairs, however it came about."""

from hypothesis import given
from hypothesis import strategies as st

from topo.discovery.groups.carriers import CROWD, Carriers

pairs = st.tuples(st.sampled_from("xyz"), st.integers(0, CROWD + 2))


@given(st.lists(pairs))
def test_the_index_is_the_table_of_its_pairs(toggled):
    """A pair that is there goes, one that is not comes; after each, every view agrees."""
    carriers, table = Carriers[str, int](), set[tuple[str, int]]()
    for value, carrier in toggled:
        if (value, carrier) in table:
            carriers.discard((value,), carrier)
        else:
            carriers.add((value,), carrier)
        table ^= {(value, carrier)}
        of = {v: {c for known, c in table if known == v} for v in "xyz"}
        assert bool(carriers) == bool(table)
        assert {v: set(carriers.all(v)) for v in "xyz"} == of
        assert {v: {c} for v, c in carriers.sole.items()} == {
            v: cs for v, cs in of.items() if len(cs) == 1
        }
        assert carriers.several == {v: cs for v, cs in of.items() if len(cs) > 1}
        assert carriers.of("xy") == of["x"] | of["y"]


@given(st.integers(1, 2 * CROWD))
def test_a_crowd_says_nothing(number):
    """Up to eight carriers mean something; what more of them carry is a placeholder."""
    carriers = Carriers[str, int]()
    for carrier in range(number):
        carriers.add(("0",), carrier)
        carriers.add(("0",), carrier)
    assert len(carriers.all("0")) == number
    assert len(carriers.few("0")) == (number if number <= CROWD else 0)
