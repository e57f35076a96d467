"""Holds turn into pods: each GPU counted once, whatever comes in whatever order."""

import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.placement.booking.holding import committed, expired, released, reserved
from tests.support.capacity import leaves
from topo.model.errors import BrokenInvariantError
from topo.model.ids import NodeName
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.events import (
    Change,
    Event,
    HoldAsked,
    HoldChange,
    HoldCommitted,
    HoldReleased,
    Pod,
    PodChange,
    PodGone,
    PodPhase,
    PodSeen,
    What,
)
from topo.placement.booking.holds import (
    ClockReading,
    Ended,
    Hold,
    HoldId,
    HoldRequest,
    Limits,
    booked,
)
from topo.placement.booking.log import text_of
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.request import Request

NODES = tuple(NodeName(f"n{number}") for number in range(6))


def threes(nodes: int = len(NODES)) -> Capacity:
    """Nodes in groups of three."""
    return leaves(nodes, per_group=3)


def pod(uid: str, node: str, hold: str | None = "h1", gpus: int = 8, *, shares: int = 0) -> Pod:
    return Pod(
        uid=uid,
        namespace="jobs",
        name=uid,
        node=NodeName(node),
        gpus=gpus,
        hold=HoldId(hold) if hold is not None else None,
        shared=(("metax-tech.com/sgpu", shares),) if shares else (),
    )


def seen(phase: PodPhase, *pods: Pod) -> tuple[PodSeen, ...]:
    return tuple(PodSeen(each, phase) for each in pods)


def nominated(*pods: Pod) -> tuple[PodSeen, ...]:
    return seen(PodPhase.NOMINATED, *pods)


def bound(*pods: Pod) -> tuple[PodSeen, ...]:
    return seen(PodPhase.BOUND, *pods)


def held(pods: int = 3) -> tuple[Capacity, Bookings, Hold]:
    capacity = threes()
    bookings = Bookings(capacity)
    hold = reserved(
        bookings, capacity, HoldRequest(Request(pods=pods, gpus_per_pod=8), 60), name="h1"
    )
    assert isinstance(hold, Hold)
    assert list(hold.gpus) == list(NODES[:pods])
    return capacity, bookings, hold


def used(capacity: Capacity) -> dict[str, int]:
    return {node: capacity.used(node) for node in NODES if capacity.used(node)}


def of_holds(changes: tuple[Change, ...]) -> list[str]:
    return [text_of(change) for change in changes if isinstance(change, HoldChange)]


def test_a_hold_that_turns_into_bound_pods_is_counted_once_and_has_then_ended():
    capacity, bookings, _ = held()
    whole = used(capacity)
    pods = [pod(f"p{n}", f"n{n}") for n in range(3)]
    assert of_holds(bookings.advance(1, *nominated(*pods))) == []
    assert used(capacity) == whole
    assert of_holds(bookings.advance(2, *bound(*pods[:2]))) == []
    assert used(capacity) == whole
    assert of_holds(bookings.advance(3, *bound(pods[2]))) == ["bound h1"]
    assert used(capacity) == whole
    assert bookings.find(HoldId("h1")) == Ended(HoldId("h1"), "bound", 3)
    bookings.advance(4, *(PodGone(each.uid) for each in pods))
    assert not capacity.bookings()


def held_less(**slack: int) -> tuple[Capacity, Bookings]:
    """A hold of three places of 8 GPUs, less these GPUs of some nodes."""
    capacity = threes()
    bookings, request = Bookings(capacity), Request(pods=3, gpus_per_pod=8)
    plan = place(capacity, request)
    assert isinstance(plan, Plan)
    asked = HoldAsked.of(HoldRequest(request, 60), plan, HoldId("h1"), 1)
    less = tuple((NodeName(node), gpus) for node, gpus in slack.items())
    bookings.advance(0, replace(asked, slack=less))
    return capacity, bookings


def test_a_hold_books_no_more_of_a_place_than_its_pod_asks_for():
    capacity, bookings = held_less(n1=4)
    assert used(capacity) == {"n0": 8, "n1": 4, "n2": 8}
    pods = [pod("p0", "n0"), pod("p1", "n1", gpus=4)]
    bookings.advance(1, *bound(*pods))
    assert used(capacity) == {"n0": 8, "n1": 4, "n2": 8}
    assert bookings.awaited(HoldId("h1")) == {"n2": 8}
    bookings.advance(2, *bound(pod("p2", "n2")))
    assert dict(bookings.awaited(HoldId("h1"))) == {}


@pytest.mark.parametrize("slack", [{"n2": 8}, {"n1": 4, "n2": 8}])
def test_a_hold_with_a_place_for_a_pod_of_no_gpus_lasts_until_its_owner_ends_it(slack):
    """That pod takes nothing by which it would be seen here, and may need its note borne out."""
    capacity, bookings = held_less(**slack)
    taken, pods = used(capacity), [pod("p0", "n0"), pod("p1", "n1", gpus=8 - slack.get("n1", 0))]
    assert of_holds(bookings.advance(1, *bound(*pods))) == []
    hold = bookings.find(HoldId("h1"))
    assert isinstance(hold, Hold)
    assert (hold.places[NodeName("n2")], dict(bookings.awaited(hold.id))) == (1, {})
    assert released(bookings, hold.id, 2) == hold
    assert used(capacity) == taken


def test_a_pod_that_never_belonged_to_a_hold_counts_too():
    capacity, bookings, _ = held()
    bookings.advance(1, *bound(pod("p", "n5", hold=None), pod("q", "n4", hold="unknown")))
    assert used(capacity) == {"n0": 8, "n1": 8, "n2": 8, "n4": 8, "n5": 8}


def test_pods_that_went_elsewhere_are_told_and_the_hold_waits_for_the_others():
    capacity, bookings, _ = held()
    assert of_holds(bookings.advance(1, *bound(pod("p0", "n0")))) == []
    assert of_holds(bookings.advance(2, *bound(pod("p1", "n5")))) == ["strayed h1 n5:8"]
    assert used(capacity) == {"n0": 8, "n5": 8, "n1": 8}
    assert of_holds(bookings.advance(3, *bound(pod("p2", "n1")))) == ["bound h1 n5:8"]
    assert used(capacity) == {"n0": 8, "n5": 8, "n1": 8}


def test_a_nominated_pod_that_is_bound_elsewhere_gives_its_node_back():
    capacity, bookings, _ = held()
    bookings.advance(1, *nominated(pod("p0", "n0"), pod("p1", "n1"), pod("p2", "n2")))
    changes = bookings.advance(2, *bound(pod("p0", "n4")))
    assert of_holds(changes) == ["strayed h1 n4:8"]
    assert used(capacity) == {"n1": 8, "n2": 8, "n4": 8}


def test_a_terminating_pod_counts_until_it_is_gone_and_then_its_hold_waits_again():
    capacity, bookings, _ = held()
    bookings.advance(1, *bound(pod("p0", "n0")))
    bookings.advance(2, *seen(PodPhase.TERMINATING, pod("p0", "n0")))
    assert used(capacity) == {"n0": 8, "n1": 8, "n2": 8}
    bookings.advance(3, *bound(pod("p1", "n1"), pod("p2", "n2")))
    assert isinstance(bookings.find(HoldId("h1")), Hold), "a pod that ends is not bound"
    bookings.advance(4, PodGone("p0"))
    assert capacity.bookings()["h1"] == {"n0": 8}


def calls_for_a_pod(nodes: int) -> int:
    """Functions that are called when one pod of a hold of so many nodes is bound."""
    capacity = threes(nodes)
    bookings = Bookings(capacity)
    wish = HoldRequest(Request(pods=nodes, gpus_per_pod=8, group_size=8), 60)
    reserved(bookings, capacity, wish, name="h1")
    bookings.advance(1, *bound(pod("p0", "n0")))
    called: list[str] = []
    sys.setprofile(lambda _frame, what, _arg: called.append(what) if "call" in what else None)
    try:
        bookings.advance(2, *bound(pod("p1", "n1")))
    finally:
        sys.setprofile(None)
    assert used(capacity)["n1"] == 8
    return len(called)


def test_a_pod_costs_a_large_hold_no_more_calls_than_a_small_one():
    assert calls_for_a_pod(96) == calls_for_a_pod(6)


@pytest.mark.parametrize("ends", ["expired", "released"])
def test_pods_of_a_hold_that_ended_go_on_to_count(ends: str):
    capacity, bookings, _ = held()
    bookings.advance(1, *bound(pod("p0", "n0")))
    if ends == "expired":
        assert [hold.id for hold in expired(bookings, 60)] == ["h1"]
    else:
        released(bookings, HoldId("h1"), 2)
    assert used(capacity) == {"n0": 8}


def test_what_is_older_or_repeated_changes_nothing():
    _, bookings, _ = held()
    bookings.advance(1, *bound(pod("p0", "n0")))
    version = bookings.version
    assert bookings.advance(2, *bound(pod("p0", "n0"))) == ()
    assert bookings.advance(2, *nominated(pod("p0", "n1"))) == ()
    assert bookings.advance(2, PodGone("nobody")) == ()
    assert bookings.version == version


def test_an_id_that_is_not_new_is_our_own_mistake():
    capacity, bookings, _ = held(2)
    with pytest.raises(BrokenInvariantError, match="h1 is not a new name"):
        reserved(bookings, capacity, HoldRequest(Request(pods=1, gpus_per_pod=8), 60), name="h1")


def test_what_the_capacity_books_otherwise_is_found_mended_and_named():
    capacity, bookings, hold = held()
    capacity.book("h1", {NODES[0]: 4})
    capacity.book("nobody", {NODES[5]: 1})
    with pytest.raises(BrokenInvariantError, match="the capacity books something else"):
        bookings.validate()
    assert [(each.node, each.counted, each.kept) for each in bookings.recount()] == [
        ("n0", 8, 4), ("n1", 8, 0), ("n2", 8, 0), ("n5", 0, 1),
    ]  # fmt: skip
    assert capacity.bookings() == {"h1": hold.gpus}


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda b: b._keys.update(key="h9"), "keys"),
        (lambda b: b._deadlines.clear(), "never expire"),
        (lambda b: b._pods_of.update(h9={"p9": None}), "pods by hold"),
        (lambda b: b._ends.update(h1=Ended(HoldId("h1"), "released", 0)), "has ended"),
        (lambda b: setattr(b, "_most", 0), "1 holds, where 0 may be"),
    ],
)
def test_a_broken_index_is_named(damage, what):
    _, bookings, _ = held()
    bookings.advance(1, *bound(pod("p0", "n0")))
    bookings.validate()
    damage(bookings)
    with pytest.raises(BrokenInvariantError, match=what):
        bookings.validate()


HOLDS = st.sampled_from(["h1", "h2", "h3", "h4"])
PODS = st.builds(
    pod,
    st.sampled_from([f"p{n}" for n in range(6)]),
    st.sampled_from(NODES),
    st.one_of(st.none(), HOLDS),
    st.sampled_from([0, 2, 8]),
    shares=st.sampled_from([0, 3]),
)
LIMITS = Limits(holds=3)


class Everything(RuleBasedStateMachine):
    """Holds and pods come and go in any order, beside naive books and a log that is replayed."""

    def __init__(self) -> None:
        super().__init__()
        self.capacity = threes()
        self.bookings = Bookings(self.capacity, LIMITS)
        self.now_s = 0.0
        self.made = 0
        self.pods: dict[str, Pod] = {}
        self.log: list[tuple[float, tuple[Event, ...], tuple[Change, ...]]] = []

    def advance(self, *events: Event) -> tuple[Change, ...]:
        changes = self.bookings.advance(self.now_s, *events)
        self.log.append((self.now_s, events, changes))
        return changes

    @rule(
        pods=st.integers(1, 4),
        gpus=st.sampled_from([4, 8]),
        hold_s=st.integers(1, 9),
        less=st.lists(st.integers(0, 8), min_size=4, max_size=4),
    )
    def ask(self, pods: int, gpus: int, hold_s: int, less: list[int]) -> None:
        request = Request(pods=pods, gpus_per_pod=gpus)
        plan = place(self.capacity, request)
        if not isinstance(plan, NoFit):
            self.made += 1
            name = HoldId(f"h{self.made}")
            key = f"key-{self.made % 3}"
            asked = HoldAsked.of(HoldRequest(request, hold_s, key), plan, name, 1)
            whole = booked((group.pods for group in plan.groups), gpus)
            slack = (
                (node, min(each, whole[node])) for node, each in zip(whole, less, strict=False)
            )
            self.advance(replace(asked, slack=tuple(slack)))

    @rule(name=HOLDS)
    def commit(self, name: str) -> None:
        self.advance(HoldCommitted(HoldId(name)))

    @rule(name=HOLDS)
    def release(self, name: str) -> None:
        self.advance(HoldReleased(HoldId(name)))

    @rule(seconds=st.integers(0, 5))
    def wait(self, seconds: int) -> None:
        self.now_s += seconds
        self.advance()
        assert all(h.deadline_s is None or h.deadline_s > self.now_s for h in self.bookings)

    @rule(each=PODS, phase=st.sampled_from(PodPhase))
    def see(self, each: Pod, phase: PodPhase) -> None:
        if self.advance(PodSeen(each, phase)):
            self.pods[each.uid] = each

    @rule(each=st.lists(st.tuples(PODS, st.sampled_from(PodPhase)), max_size=5))
    def see_together(self, each: list[tuple[Pod, PodPhase]]) -> None:
        """What many pods mean for holds in the end does not depend on looking in between."""
        one_by_one = Bookings(threes(), LIMITS)
        one_by_one.load_state(self.bookings.state())
        for one, phase in each:
            one_by_one.advance(self.now_s, PodSeen(one, phase))
        changes = self.advance(*(PodSeen(one, phase) for one, phase in each))
        self.pods |= {c.pod.uid: c.pod for c in changes if isinstance(c, PodChange) and c.phase}
        for hold in self.bookings:
            found = one_by_one.find(hold.id)
            assert isinstance(found, Hold | Ended)
            if isinstance(found, Hold):
                assert one_by_one.awaited(hold.id) == self.bookings.awaited(hold.id)

    @rule(each=PODS)
    def end(self, each: Pod) -> None:
        self.pods.pop(each.uid, None)
        self.advance(PodGone(each.uid))

    @invariant()
    def nothing_is_counted_twice_or_forgotten(self) -> None:
        self.bookings.validate()
        assert self.bookings.recount() == ()
        assert self.capacity.recount() == ()
        taken = Counter[NodeName]()
        for each in self.pods.values():
            taken[each.node] += each.gpus
        for hold in self.bookings:
            own = Counter[NodeName]()
            for each in self.pods.values():
                if each.hold == hold.id:
                    own[each.node] += each.gpus
            awaited = self.capacity.bookings().get(hold.id, {})
            missing = max(0, sum(hold.gpus.values()) - sum(own.values()))
            assert sum(awaited.values()) == missing
            for node, gpus in awaited.items():
                assert gpus + own[node] <= hold.gpus[node]
            taken.update(awaited)
        assert {n: self.capacity.used(n) for n in NODES} == {n: taken[n] for n in NODES}
        shares = Counter[NodeName]()
        for each in self.pods.values():
            shares.update({each.node: sum(number for _, number in each.shared)})
        used = self.bookings.shared_used()
        assert {n: dict(used[n])["metax-tech.com/sgpu"] for n in used} == +shares

    def teardown(self) -> None:
        """The log replayed elsewhere, and a machine that goes on from the state, are the same."""
        again = Bookings(threes(), LIMITS)
        for now_s, events, changes in self.log:
            assert again.advance(now_s, *events) == changes
        assert again.state() == self.bookings.state()
        onward = Bookings(threes(), LIMITS)
        onward.load_state(self.bookings.state())
        onward.validate()
        assert onward.state() == self.bookings.state()
        later = self.now_s + 100
        assert onward.advance(later) == self.bookings.advance(later)


TestEverything = Everything.TestCase
TestEverything.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


def test_a_committed_hold_ends_with_its_pods_too():
    capacity, bookings, _ = held(1)
    committed(bookings, HoldId("h1"), 1)
    changes = bookings.advance(2, *bound(pod("p0", "n0")))
    assert [c.what for c in changes if isinstance(c, HoldChange)] == [What.BOUND]
    assert used(capacity) == {"n0": 8}


@pytest.mark.parametrize("first", ["hold", "pods"])
def test_a_kept_hold_and_its_pods_may_come_back_in_either_order(first: str):
    _, before, _ = held(2)
    committed(before, HoldId("h1"), 1)
    capacity = threes()
    bookings = Bookings(capacity)
    pods = bound(pod("p0", "n0"), pod("p1", "n1"))
    if first == "hold":
        bookings.restore(before.persistent_state(ClockReading("", 1, 1)), ClockReading("", 1, 1))
        bookings.advance(2, *pods)
    else:
        bookings.advance(1, *pods)
        bookings.restore(before.persistent_state(ClockReading("", 2, 2)), ClockReading("", 2, 2))
        assert of_holds(bookings.advance(2)) == ["bound h1"]
    assert bookings.find(HoldId("h1")) == Ended(HoldId("h1"), "bound", 2)
    bookings.advance(3, PodGone("p0"), PodGone("p1"))
    assert not capacity.bookings()


def test_a_pod_that_comes_again_under_another_name_is_counted_once():
    capacity, bookings, _ = held(1)
    first = pod("p0", "n4", hold=None)
    bookings.advance(1, *bound(first))
    bookings.advance(2, *bound(replace(first, name="other", node=NODES[5])))
    bookings.validate()
    assert used(capacity) == {"n0": 8, "n5": 8}
