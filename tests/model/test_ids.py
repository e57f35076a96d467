"""The one order that names are listed in."""

from hypothesis import given
from hypothesis import strategies as st

from topo.model.ids import natural_key


def test_numbers_count_as_numbers():
    """node-2 precedes node-10."""
    assert sorted(["node-10", "node-2", "node-1b"], key=natural_key) == [
        "node-1b",
        "node-2",
        "node-10",
    ]


@given(st.lists(st.text()))
def test_the_order_is_total_for_any_names(names):
    """Any text can be sorted, and no two different names are equal in the order."""
    keys = {natural_key(n) for n in names}
    assert len(keys) == len(set(names))
    backwards = names[::-1]
    assert sorted(names, key=natural_key) == sorted(backwards, key=natural_key)
