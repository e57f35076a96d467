"""What pods state of their places is a claim: it ends no leader and moves no other gang."""

from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.jobs import dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.world import Cluster
from topo.gangs.machine.claims import doubtful_notes, note_doubt, surplus_pods
from topo.gangs.machine.gang import Binding, Gang, GangId, Member, Note, PodUid, Selection
from topo.gangs.machine.instructions import LabelNodes, Nominate, Place
from topo.gangs.machine.placement_needs import PlacementNeed, placement_need
from topo.gangs.machine.record import restore_record
from topo.model.conditions.gang_states import GangState
from topo.model.errors import BrokenInvariantError
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import Request

EVIL, VICTIM = GangId("evil"), GangId("victim")
GONE = NodeName("gone")


def note(**more: object) -> Note:
    """A note as a tenant writes it by hand."""
    stated: dict[str, object] = {
        "node": GONE,
        "group": 0,
        "hold": HoldId("x"),
        "selection": Selection("x"),
        "generation": 1,
        "certified": True,
    }
    return Note(**(stated | more))  # type: ignore[arg-type]


def led_over(cluster: Cluster) -> list[Leader]:
    """Four leaders, each after the end of the one before."""
    leaders = []
    for _ in range(4):
        leaders.append(Leader.over(cluster))
        leaders[-1].settle()
    return leaders


VARIANTS = [
    *product((0, 1, 2), (True, False), (None, "gone", "n1-1-1"), ([*Binding])),
]


@pytest.mark.parametrize(("rank", "gated", "bound", "binding"), VARIANTS)
def test_three_pods_of_one_rank_with_a_note_end_no_leader(
    rank: int, gated: object, bound: str | None, binding: Binding
) -> None:
    cluster = Cluster(dragonflies(2, 2))
    made = job("evil", 2, binding=binding)
    cluster.jobs[EVIL] = made
    if bound is not None:
        cluster.create(EVIL, rank, gated=False, node=NodeName(bound))
    for _ in range(3):
        cluster.create(EVIL, rank, gated=gated, note=note(), selection=Selection("x"))
    cluster.submit(job("victim", 4, created_s=1.0))
    leaders = led_over(cluster)
    assert len(cluster.bound(VICTIM)) == 4
    assert all(len(homes) == 1 for homes in cluster.groups(VICTIM).values())
    written = [each for leader in leaders for each in leader.given]
    labelled = {n for each in written if isinstance(each, LabelNodes) for n, _ in each.nodes}
    assert GONE not in labelled


@pytest.mark.parametrize("binding", [*Binding])
def test_a_plan_is_not_read_from_notes_that_nothing_bears_out(binding: Binding) -> None:
    """Two waiting pods state places on nodes of two dragonflies: they get one dragonfly."""
    cluster = Cluster(dragonflies(2, 2))
    cluster.jobs[EVIL] = job("evil", 2, binding=binding)
    for rank, node in enumerate(("n1-1-1", "n2-1-1")):
        cluster.create(EVIL, rank, note=note(node=NodeName(node)), nominated=NodeName(node))
    leader = Leader.over(cluster)
    leader.settle()
    assert len(cluster.bound(EVIL)) == 2
    assert [len(homes) for homes in cluster.groups(EVIL).values()] == [1]


def test_a_note_of_a_pod_without_a_place_is_withdrawn() -> None:
    cluster = Cluster(dragonflies(1))
    cluster.jobs[EVIL] = job("evil", 4)  # two pods are missing, so that nothing is planned
    stated = cluster.create(EVIL, 0, note=note())
    cluster.create(EVIL, 1)
    leader = Leader.over(cluster)
    leader.settle()
    [withdrawn] = [each for each in leader.given if isinstance(each, Nominate)]
    assert (withdrawn.pod.uid, withdrawn.note.withdrawn, withdrawn.node) == (stated, True, None)
    assert not cluster.bookings.pods([stated])


@pytest.mark.parametrize("is_withdrawn", [False, True])
@pytest.mark.parametrize(("gated", "is_tried"), [(True, False), (False, False), (False, True)])
def test_a_nomination_that_no_scheduler_wrote_goes_whatever_the_note_says(
    *, gated: bool, is_tried: bool, is_withdrawn: bool
) -> None:
    """A late write nominated a pod without a place, and its owner wrote another note since."""
    cluster = Cluster(dragonflies(1))
    cluster.jobs[EVIL] = job("evil", 4)  # two pods are missing, so that nothing is planned
    stated = cluster.create(
        *(EVIL, 0),
        gated=gated,
        is_tried=is_tried,
        nominated=NodeName("n1-1-1"),
        note=note(withdrawn=is_withdrawn),
    )
    cluster.create(EVIL, 1)
    leader = Leader.over(cluster)
    given = [*leader.unsent, *leader.take(*leader.news())]
    written = [each for each in given if isinstance(each, Nominate)]
    is_of_scheduler = is_tried and is_withdrawn
    assert [(each.pod.uid, each.node) for each in written] == (
        [] if is_of_scheduler else [(stated, None)]
    )


def test_a_note_counts_by_a_hold_or_a_label_of_its_gang_alone() -> None:
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("victim", 2))
    first, _ = cluster.members(VICTIM)
    gang = cluster.seen(VICTIM).gang
    held = replace(gang, holds={HoldId("h"): {GONE: 1}})
    labelled = replace(gang, labelled={GONE: Selection("x")})
    assert "no hold x" in note_doubt(gang, first, note())
    assert not note_doubt(held, first, note(hold=HoldId("h")))
    assert note_doubt(held, first, note(hold=HoldId("h"), over=True)), "such a plan has no hold"
    other = replace(gang, holds={HoldId("h"): {NodeName("n1"): 1}})
    assert note_doubt(other, first, note(hold=HoldId("h"))), "it books another node"
    assert not note_doubt(labelled, first, note())
    assert not note_doubt(labelled, first, note(over=True))
    assert note_doubt(labelled, first, note(selection=Selection("y")))
    assert not note_doubt(gang, first, note(withdrawn=True)), "it takes nothing"
    assert not note_doubt(gang, replace(first, node=GONE), note()), "it runs there"
    assert note_doubt(gang, replace(first, node=NodeName("n1")), note()), "it runs elsewhere"
    assert "group 1" in note_doubt(labelled, first, note(group=1))


def test_what_the_machine_wrote_itself_is_never_doubted() -> None:
    cluster = Cluster(dragonflies(2, 2))
    cluster.submit(job("victim", 4))
    leader = Leader.over(cluster)
    for _ in range(20):
        for each in leader.unsent + leader.take(*leader.news()):
            cluster.write(each)
            assert not doubtful_notes(cluster.seen(VICTIM).gang)
        leader.unsent = []
    leader.settle()
    assert not doubtful_notes(cluster.seen(VICTIM).gang)


@pytest.mark.parametrize("binding", [*Binding])
def test_a_moved_pod_keeps_its_hold_until_its_node_has_the_label(binding: Binding) -> None:
    """The other pod of the hold is gone; without the label the hold alone bears out the note."""
    cluster = Cluster(dragonflies(2, 1))
    cluster.submit(job("victim", 2, binding=binding))
    leader = Leader.over(cluster)
    leader.settle(schedule=False)
    for node in sorted(cluster.labels[VICTIM]):
        cluster.intrude(f"on-{node}", node)
    for _ in range(3):
        for each in leader.take(*leader.news()):
            if not isinstance(each, LabelNodes):
                cluster.write(each)
    moved, gone = cluster.members(VICTIM)
    assert moved.note is not None
    assert moved.nominated == moved.note.node
    cluster.delete(gone.uid)
    for each in leader.take(*leader.news()):
        if not isinstance(each, LabelNodes):
            cluster.write(each)
    assert not doubtful_notes(cluster.seen(VICTIM).gang)
    leader = Leader.over(cluster)
    written = [*leader.unsent, *leader.take(*leader.news())]
    assert [type(each) for each in written] == [LabelNodes], "it goes on with the place"


@pytest.mark.parametrize("gated", [True, False])
def test_opened_pods_keep_their_hold_until_they_are_bound_or_one_of_them_is_gone(
    *, gated: bool
) -> None:
    """Gated ones keep it in any case, and get one of their own."""
    cluster = Cluster(dragonflies(2, 2))
    cluster.submit(job("victim", 4, binding=Binding.PIECEMEAL))
    leader = Leader.over(cluster)
    leader.settle(schedule=False)
    [(hold, places)] = cluster.holds_of(VICTIM).items()
    assert sum(places.values()) == 4
    leader.settle(schedule=False)
    assert [*cluster.holds_of(VICTIM)] == [hold]
    *others, gone = cluster.members(VICTIM)
    if gated:
        cluster.change(others[0].uid, gated=True, selection=Selection(""))
    cluster.delete(gone.uid)
    leader.settle(schedule=False)
    left = cluster.holds_of(VICTIM)
    assert hold not in left
    assert [sum(each.values()) for each in left.values()] == ([1] if gated else [])
    assert len(cluster.bookings.pods([member.uid for member in others])) == 3


@pytest.mark.parametrize("is_opened", [False, True])
def test_a_gated_pod_has_no_place_on_a_node_that_its_hold_does_not_book(*, is_opened: bool) -> None:
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("victim", 2))
    gang = cluster.seen(VICTIM).gang
    selects = {"selection": Selection("x")}
    first, second = (replace(m, note=note(hold=HoldId("h")), **selects) for m in gang.members)  # type: ignore[arg-type]
    first = replace(first, gated=not is_opened)
    gang = replace(
        *(gang,),
        members=(first, second),
        labelled={GONE: Selection("x")},
        holds={HoldId("h"): {NodeName("n1"): 2}},
    )
    record = restore_record(gang)
    assert record.plan.keys() == ({first.uid} if is_opened else set())


@pytest.mark.parametrize(("stated", "counts"), [("n1", True), ("n2", True), ("gone", False)])
def test_a_bound_pod_has_a_place_of_its_hold_only_where_its_note_is_borne_out(
    stated: str, *, counts: bool
) -> None:
    """On another node than its own, too: a scheduler may exchange the pods of a gang."""
    cluster, hold = Cluster(dragonflies(1)), HoldId("h")
    cluster.submit(job("victim", 2))
    gang = cluster.seen(VICTIM).gang
    names = [NodeName("n1"), NodeName("n2")]
    notes = [note(hold=hold, node=NodeName(each)) for each in (stated, "n1")]
    bound = (
        replace(member, gated=False, node=node, note=each)
        for member, node, each in zip(gang.members, names, notes, strict=True)
    )
    gang = replace(gang, members=tuple(bound), holds={hold: dict.fromkeys(names, 1)})
    assert restore_record(gang).too_large_holds() == (set() if counts else {hold})


MEMBERS = st.lists(
    st.builds(
        Member,
        uid=st.integers(0, 99).map(lambda number: PodUid(f"p{number}")),
        name=st.just("p"),
        rank=st.integers(-1, 4),
        version=st.just("1"),
        gated=st.booleans(),
        node=st.sampled_from([None, NodeName("n1")]),
        terminating=st.booleans(),
    ),
    unique_by=lambda member: member.uid,
    max_size=12,
)


@given(MEMBERS, st.integers(1, 4), st.randoms())
def test_each_rank_has_one_pod_whatever_the_order_and_a_bound_one_first(
    members: list[Member], pods: int, random: object
) -> None:
    surplus = surplus_pods(members, pods)
    shuffled = [*members]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert surplus_pods(shuffled, pods) == surplus
    live = [member for member in members if member.live]
    kept = [member for member in live if member.uid not in surplus]
    assert sorted(m.rank for m in kept) == sorted({m.rank for m in live if 0 <= m.rank < pods})
    for each in live:
        keeper = next((m for m in kept if m.rank == each.rank), None)
        assert keeper is None or keeper.node is not None or each.node is None


def test_a_plan_of_notes_is_unproven_and_has_no_place_that_was_withdrawn() -> None:
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("victim", 2))
    gang = cluster.seen(VICTIM).gang
    opened = {"gated": False, "selection": Selection("x")}
    first, second = (replace(member, **opened) for member in gang.members)  # type: ignore[arg-type]
    first, given_up = replace(first, note=note()), replace(second, note=note(withdrawn=True))
    gang = replace(gang, members=(first, given_up), labelled={GONE: Selection("x")})
    record = restore_record(gang)
    assert record.plan.keys() == {first.uid}
    assert record.unproven, "notes may be of two plans, so that a check comes before any write"


def test_of_two_pods_of_a_rank_the_one_that_is_further_keeps_it() -> None:
    """A bound one before one that waits, an opened one before a gated one, a planned one next."""
    bound = {"node": NodeName("n1"), "gated": True}
    stages: list[dict[str, object]] = [
        bound,
        {"gated": False},
        {"gated": True, "note": note()},
        {"gated": True},
    ]
    for at, (first, second) in enumerate(pairwise(stages)):
        for uids in (("a", "b"), ("b", "a")):
            members = [
                Member(uid=PodUid(uid), name="p", rank=0, version="1", **stage)  # type: ignore[arg-type]
                for uid, stage in zip(uids, (first, second), strict=True)
            ]
            assert surplus_pods(members, 1) == {uids[1]}, f"stages {at} and {at + 1}"


@pytest.mark.parametrize("rank", [0, 2, 900_000])
def test_a_surplus_pod_has_no_place_and_is_asked_none_for(rank: int) -> None:
    """It waits, opened or gated, planned by a note that a label bears out or bound, as it likes."""
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("victim", 2))
    gang = cluster.seen(VICTIM).gang
    node, x = NodeName("n1"), Selection("x")
    own = [
        replace(member, gated=False, selection=x, node=NodeName(f"n{at}"))
        for at, member in enumerate(gang.members)
    ]
    noted = note(group=gang.group_of(rank))
    for more in (
        {"gated": True, "note": noted},
        {"gated": True},
        {"selection": x, "note": noted},
        {"selection": x},
        {"node": node, "selection": x},
    ):
        uid = PodUid("z")
        extra = Member(uid=uid, name="z", rank=rank, version="1", **more)
        record = restore_record(replace(gang, members=(*own, extra), labelled={GONE: x}))
        assert record.surplus == {uid}
        assert uid not in record.plan
        need = placement_need(record)
        assert not isinstance(need, PlacementNeed)
        lost = replace(record, gang=replace(record.gang, members=(*own[:1], extra)))
        again = placement_need(lost)
        assert not isinstance(again, PlacementNeed) or uid not in again.uids


def test_no_two_pods_are_placed_at_one_rank_nor_one_beyond_the_size() -> None:
    first = Member(uid=PodUid("a"), name="a", rank=0, version="1")
    twin, beyond = replace(first, uid=PodUid("b")), replace(first, uid=PodUid("c"), rank=2)
    request = Request(pods=2, gpus_per_pod=8)
    for wanted in ((first, twin), (first, beyond), (replace(first, rank=-1),)):
        with pytest.raises(BrokenInvariantError, match="rank"):
            Place(id=EVIL, ask=1, request=request, wanted=wanted)
    Place(id=EVIL, ask=1, request=request, wanted=(first, replace(beyond, rank=1)))


def test_a_surplus_pod_moves_no_pod_of_its_gang() -> None:
    """Beside a running gang a pod comes with a rank that another has: nothing of it moves."""
    cluster = Cluster(dragonflies(2, 2))
    cluster.submit(job("victim", 4, binding=Binding.PIECEMEAL))
    leader = Leader.over(cluster)
    leader.settle()
    before = cluster.bound(VICTIM)
    cluster.create(VICTIM, 2, gated=False, selection=Selection("y"), note=note(group=1))
    leader.settle(schedule=False)
    again = Leader.over(cluster)
    again.settle(schedule=False)
    assert cluster.bound(VICTIM) == before
    for each in (leader, again):
        status = each.gangs.status(VICTIM)
        assert status is not None
        assert status.state is GangState.PODS_MISSING


def test_the_gang_value_is_what_is_judged() -> None:
    gang = Cluster(dragonflies(1))
    gang.submit(job("victim", 2))
    seen: Gang = gang.seen(VICTIM).gang
    assert doubtful_notes(seen) == {}
