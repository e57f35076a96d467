"""The hosts with the labels of a selector are those that have them, whatever changed since."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.capacity import capacity_of, host
from topo.model.ids import NodeName

LABELS = (("rack", "r1"), ("role", "a"))
names = st.sampled_from([f"n{number}" for number in range(5)])
labels = st.sets(st.sampled_from([*LABELS, ("rack", "r2")]), max_size=2)


@given(
    st.lists(st.one_of(st.tuples(names, labels), st.tuples(names, st.none())), max_size=12),
    st.sampled_from([LABELS[:1], LABELS[1:], LABELS]),
)
def test_hosts_with_all_labels_of_a_selector_are_found_after_any_changes(
    steps: list[Any], selector: tuple[tuple[str, str], ...]
) -> None:
    capacity = capacity_of([])
    for name, has in steps:
        if has is None:
            capacity.remove(NodeName(name))
        else:
            fly = f"d{int(name[1:]) // 2}"
            capacity.upsert(host(name, ("s", fly), labels=tuple(sorted(dict(has).items()))))
        able = {each.name for each in capacity.hosts() if {*selector} <= {*each.labels}}
        assert {each.name for each in capacity.labelled(selector)} == able
        view = capacity.with_changes(taken={"x": {NodeName("n0"): 1}})
        assert {each.name for each in view.labelled(selector)} == able
