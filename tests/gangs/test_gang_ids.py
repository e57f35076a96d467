"""The id of a gang is of the names that identify it, and of no others."""

from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from topo.gangs.machine.gang import gang_of, gang_of_owner

TEXTS = ("", "/", "%", "%2F", "%25", "a", "a/", "/a")
"""Names that are easily taken for others once they are joined."""
NAMES: Any = st.lists(st.text(), min_size=2, max_size=4).map(tuple)


def test_no_two_names_give_one_gang_wherever_slashes_and_percent_signs_are_in_them() -> None:
    names: list[Any] = [each for parts in (2, 3, 4) for each in product(TEXTS, repeat=parts)]
    assert len({gang_of(*each) for each in names}) == len(names)


@given(NAMES, NAMES)
def test_two_gangs_have_one_id_if_all_of_their_names_are_equal(one: Any, other: Any) -> None:
    assert (gang_of(*one) == gang_of(*other)) == (one == other)
    joined = one[0], "/".join(one[1:])
    assert (gang_of(*one) == gang_of(*joined)) == (one == joined)


def test_an_owner_of_another_namespace_group_or_kind_is_another_gang() -> None:
    victim = gang_of_owner("jobs", "batch/v1", "Job", "u-1")
    others = {
        gang_of_owner("evil", "batch/v1", "Job", "u-1"),
        gang_of_owner("jobs", "batch.volcano.sh/v1alpha1", "Job", "u-1"),
        gang_of_owner("jobs", "v1", "Job", "u-1"),
        gang_of_owner("jobs", "batch/v1", "ReplicaSet", "u-1"),
        gang_of_owner("jobs", "batch/v1", "Job", "u-2"),
    }
    assert len(others - {victim}) == 5


def test_an_owner_is_one_gang_in_each_version_of_its_kind() -> None:
    versions = ("batch.volcano.sh/v1alpha1", "batch.volcano.sh/v1beta1")
    assert len({gang_of_owner("jobs", version, "Job", "u-1") for version in versions}) == 1
