"""Objects of a store by a group of theirs, beside a plain table of them."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from master.kube.objects import ObjectIdentity
from master.kube.reflector import Changed, Listed, Removed
from master.kube.store import Grouped, updates

KEYS = [("ns", name) for name in "abcd"]
STEPS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.none() | st.sampled_from("xyz"), st.integers(0, 9))
)


@dataclass(frozen=True)
class Thing:
    """An object that has an identity alone."""

    metadata: ObjectIdentity


@given(STEPS)
def test_each_object_is_in_its_last_group_and_no_group_is_empty(
    steps: list[tuple[tuple[str, str], str | None, int]],
) -> None:
    """Whatever is put, moved and dropped."""
    grouped: Grouped[str, int] = Grouped()
    table: dict[tuple[str, str], tuple[str, int]] = {}
    for key, group, value in steps:
        before = table.pop(key, None)
        if group is None:
            assert grouped.drop(key) == (before[0] if before else None)
        else:
            grouped.put(key, group, value)
            table[key] = group, value
        assert set(grouped.keys) == set(table)
        assert set(grouped) == {group for group, _ in table.values()}
        for name in "xyz":
            of_group = {key: value for key, (group, value) in table.items() if group == name}
            assert dict(grouped.values(name)) == of_group
            assert (name in grouped) == bool(of_group)


def test_a_list_tells_of_what_it_lacks_and_of_all_that_it_has() -> None:
    a, b = Thing(ObjectIdentity(name="a")), Thing(ObjectIdentity(name="b"))
    listed = Listed({("ns", "b"): b})
    assert list(updates(listed, KEYS[:2])) == [(("ns", "a"), None), (("ns", "b"), b)]
    assert list(updates(Changed(("ns", "a"), a), KEYS)) == [(("ns", "a"), a)]
    assert list(updates(Removed(("ns", "a"), a), KEYS)) == [(("ns", "a"), None)]
