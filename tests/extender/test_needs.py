"""Which ranks get nodes held: every waiting group once, as a second reading of the rules has it."""

from hypothesis import given
from hypothesis import strategies as st

from topo.gangs.extender.needs import (
    AbsentRanks,
    AskingPod,
    HeldRanks,
    Needs,
    held_ranks,
    needs_of,
)
from topo.gangs.machine.gang import GangId
from topo.model.ids import NodeName
from topo.model.limits import MAX_KEY_CHARS
from topo.placement.booking.holds import Hold, HoldId, HoldRequest
from topo.placement.job.request import PlacementMode, Request

GANG = GangId("3c0f6c1e-6f0d-4f43-9d5b-6a0f6f1b7c52")
ranks_in_a_group = st.sets(st.integers(0, 511), min_size=1).map(lambda found: tuple(sorted(found)))


def hold(key: str) -> Hold:
    wish = HoldRequest(Request(pods=1, gpus_per_pod=8), 60, key)
    return Hold(
        id=HoldId("hold-1"),
        wish=wish,
        mode=PlacementMode.REQUIRED,
        gpu_type="",
        groups=(),
        generation=1,
        created_s=0,
        deadline_s=60,
    )


@given(first=st.integers(0, 1_000_000), ranks=ranks_in_a_group)
def test_a_key_says_which_ranks_a_hold_is_for(first: int, ranks: tuple[int, ...]) -> None:
    held = HeldRanks(GANG, tuple(first + rank for rank in ranks))
    assert len(held.key) <= MAX_KEY_CHARS
    assert held_ranks(hold(held.key)) == held


@given(
    key=st.text(st.characters(codec="ascii"), max_size=20)
    | st.just("extender/a/b/c")
    | st.just("extender/a/1/0")
)
def test_any_other_key_is_of_no_such_hold(key: str) -> None:
    found = held_ranks(hold(key))
    assert found is None or found.ranks


Case = tuple[list[AskingPod], dict[HoldId, tuple[int, ...]], int, int | None]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size = draw(st.integers(1, 4))
    total = draw(st.integers(1, 12))
    states = draw(st.lists(st.sampled_from(["", "waits", "bound"]), min_size=total, max_size=total))
    pods = [
        AskingPod(rank=rank, node=NodeName("n") if state == "bound" else None)
        for rank, state in enumerate(states)
        if state
    ]
    holds: dict[HoldId, tuple[int, ...]] = {}
    for group in range(-(-total // size)):
        some = draw(st.sets(st.integers(group * size, (group + 1) * size - 1)))
        if some:
            holds[HoldId(f"h{group}")] = tuple(sorted(some))
    return pods, holds, size, draw(st.sampled_from([None, total]))


@given(case=cases(), absent=st.sampled_from(AbsentRanks))
def test_after_what_is_needed_every_waiting_pod_has_a_node_and_none_has_two(
    case: Case, absent: AbsentRanks
) -> None:
    pods, holds, size, total = case
    needs = needs_of(pods, holds, (), group_pods=size, pods_total=total, absent=absent)
    left = {h: r for h, r in holds.items() if h not in (*needs.replaced, *needs.ended)}
    kept = [rank for ranks in left.values() for rank in ranks]
    assert len({*kept, *needs.ranks}) == len(kept) + len(needs.ranks)
    waiting = {pod.rank for pod in pods if pod.node is None}
    bound = {pod.rank for pod in pods if pod.node is not None}
    assert waiting <= {*kept, *needs.ranks}
    assert bound.isdisjoint(needs.ranks)
    groups = {rank // size for rank in waiting}
    if total is None or bound:
        assert {rank // size for rank in needs.ranks} <= groups
    # Of a hold with pods that come, no rank is of a pod that never does.
    for ranks in left.values():
        assert total is None or max(ranks) < total or waiting.isdisjoint(ranks)
        is_of_pods = waiting.isdisjoint(ranks) or {*ranks} <= waiting | bound
        assert absent is not AbsentRanks.NONE or is_of_pods
    if absent is AbsentRanks.NONE:
        assert waiting.issuperset(needs.ranks)
    # What is done leaves nothing to do: the holds that follow need no other ones.
    after = dict(left)
    for rank in needs.ranks:
        key = HoldId(f"new-{rank // size}")
        after[key] = (*after.get(key, ()), rank)
    again = needs_of(pods, after, (), group_pods=size, pods_total=total, absent=absent)
    assert again.ranks == ()
    assert again.replaced == ()


def test_a_hold_whose_node_is_lost_is_replaced_with_all_of_its_group_that_waits() -> None:
    pods = [AskingPod(rank=0, node=NodeName("n")), AskingPod(rank=1), AskingPod(rank=5)]
    holds = {HoldId("a"): (1, 2, 3), HoldId("b"): (4, 5, 6, 7)}
    needs = needs_of(pods, holds, (HoldId("a"),), group_pods=4, pods_total=None)
    assert needs == Needs(ranks=(1, 2, 3), replaced=(HoldId("a"),))


def test_a_gang_without_pods_keeps_nothing() -> None:
    holds = {HoldId("a"): (0, 1)}
    needs = needs_of([], holds, (), group_pods=2, pods_total=None)
    assert needs == Needs(ended=(HoldId("a"),))


def test_a_hold_ends_when_all_of_its_ranks_that_exist_are_bound() -> None:
    pods = [AskingPod(rank=0, node=NodeName("n")), AskingPod(rank=1, node=NodeName("n"))]
    holds = {HoldId("a"): (0, 1, 2, 3)}
    assert needs_of(pods, holds, (), group_pods=4, pods_total=None) == Needs()
    ends = needs_of(pods, holds, (), group_pods=4, pods_total=2)
    assert ends == Needs(ended=(HoldId("a"),))


def test_a_hold_with_a_rank_that_never_comes_is_replaced_by_one_of_those_that_wait() -> None:
    pods = [AskingPod(rank=0, node=NodeName("n")), AskingPod(rank=1)]
    holds = {HoldId("a"): (0, 1, 2, 3)}
    needs = needs_of(pods, holds, (), group_pods=4, pods_total=2)
    assert needs == Needs(ranks=(1,), replaced=(HoldId("a"),))


def test_a_pod_beyond_the_stated_size_keeps_the_hold_that_it_has() -> None:
    holds = {HoldId("a"): (5,)}
    needs = needs_of([AskingPod(rank=5)], holds, (), group_pods=4, pods_total=2)
    assert needs == Needs(ranks=(0, 1))


def test_a_hold_for_ranks_without_a_pod_is_replaced_once_no_more_are_awaited() -> None:
    holds = {HoldId("a"): (999_998, 999_999), HoldId("b"): (2, 3)}
    pods = [AskingPod(rank=999_999), AskingPod(rank=2, node=NodeName("n"))]
    needs = needs_of(pods, holds, (), group_pods=2, pods_total=None, absent=AbsentRanks.NONE)
    assert needs == Needs(ranks=(999_999,), replaced=(HoldId("a"),), ended=(HoldId("b"),))
