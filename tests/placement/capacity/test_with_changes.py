"""What if is asked of a view: it answers like a capacity that was changed, and changes nothing."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement.oracle.worlds import capacities, policies, requests
from tests.support.capacity import cluster, state
from topo.model.errors import BrokenInvariantError
from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host
from topo.placement.engine import place
from topo.placement.job.request import Request
from topo.placement.view import view_of

FIRST = NodeName("n1-1-1")


@st.composite
def changes(draw: st.DrawFn, capacity: Capacity):
    """Owners that give back, owners that take, hosts that open or close."""
    hosts = draw(st.lists(st.sampled_from(tuple(capacity.hosts())), unique_by=lambda h: h.name))
    names = st.sampled_from([host.name for host in capacity.hosts()])
    owners = st.sampled_from([*capacity.bookings(), "new"])
    return {
        "released": tuple(draw(st.lists(owners, max_size=3))),
        "taken": draw(
            st.dictionaries(
                owners, st.dictionaries(names, st.integers(0, 9), max_size=20), max_size=3
            )
        ),
        "hosts": [replace(host, ready=draw(st.booleans()), taints=()) for host in hosts],
    }


def changed_copy(capacity: Capacity, made) -> Capacity:
    copy = capacity.copy()
    for host in made["hosts"]:
        copy.upsert(host)
    for owner in made["released"]:
        copy.release(owner)
    for owner, gpus in made["taken"].items():
        copy.release(owner)
        if gpus:
            copy.book(owner, gpus)
    return copy


def counted(capacity: CapacityView, request: Request, gpu_type: str) -> object:
    slots = view_of(capacity, request, gpu_type).slots
    counts = slots.free.tolist(), slots.busy.tolist(), bytes(slots.mask).rstrip(b"\0")
    return *counts, slots.nodes, slots.free_gpus, slots.penalized, slots.total


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_view_with_changes_answers_as_a_changed_copy_does_and_changes_nothing(data) -> None:
    capacity = data.draw(capacities(data.draw(policies)))
    asked = [data.draw(requests()) for _ in range(2)]
    capacity.touched = set()
    before = state(capacity)
    made = data.draw(changes(capacity))
    view, copy = capacity.with_changes(**made), changed_copy(capacity, made)
    more = data.draw(changes(copy))
    views = ((view, copy), (view.with_changes(**more), changed_copy(copy, more)))
    for ours, theirs in views:
        assert state(ours)[1:] == state(theirs)[1:]
        for host in theirs.hosts():
            assert ours.free(host.name) == theirs.free(host.name)
            assert ours.used(host.name) == theirs.used(host.name)
        for request in asked:
            for gpu_type in theirs.gpu_types():
                assert counted(ours, request, gpu_type) == counted(theirs, request, gpu_type)
            assert place(ours, request) == place(theirs, request)
    assert state(capacity) == before
    assert capacity.touched == set()


def test_a_view_without_changes_is_the_capacity_itself() -> None:
    capacity = cluster((2, 2))
    assert capacity.with_changes(released=("nobody",), taken={"nobody": {}}) is capacity


def test_each_view_has_a_version_of_its_own_that_no_capacity_ever_has() -> None:
    capacity = cluster((2, 2))
    views = [capacity.with_changes(taken={"job": {FIRST: 8}}) for _ in range(2)]
    assert len({view.version for view in views}) == 2
    assert all(view.version < 0 for view in views)


def test_a_view_that_outlives_what_it_was_made_on_says_so() -> None:
    capacity = cluster((2, 2))
    view = capacity.with_changes(taken={"job": {FIRST: 8}})
    capacity.book("another", {FIRST: 8})
    with pytest.raises(BrokenInvariantError, match="outlived"):
        place(view, Request(pods=1, gpus_per_pod=8))


def test_a_host_is_not_assumed_to_be_elsewhere_or_of_another_size() -> None:
    capacity = cluster((2, 2))
    host = capacity.host(FIRST)
    assert isinstance(host, Host)
    for other in (replace(host, gpus=4), replace(host, places=("a", "b"))):
        with pytest.raises(BrokenInvariantError, match=FIRST):
            capacity.with_changes(hosts=[other])


def test_an_owner_of_no_gpus_gives_back_none() -> None:
    """A pod that takes shares of a card has a node and no whole GPU."""
    capacity = cluster((2, 2))
    capacity.book("pod/jobs/shares/uid", {FIRST: 0})
    freed = capacity.with_changes(released=capacity.bookings())
    assert (freed.used(FIRST), freed.free(FIRST)) == (0, capacity.free(FIRST))
