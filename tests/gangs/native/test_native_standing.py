"""Of a gang whose nodes Volcano chooses it is said what was asked, and what came of it."""

from dataclasses import replace

import pytest

from tests.master.api.test_gang_documents import NODES, gang, host, member
from topo.gangs.machine.gang import Gang, PodUid
from topo.gangs.native_status import NativeAsked, Nearness, TreeLookup, native_status
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState
from topo.model.ids import DRAGONFLY, SWITCHBOX, Kind, NodeName
from topo.placement.capacity.host import Host
from topo.placement.job.request import PlacementMode, Request

PAIRS = NativeAsked(policies=(Nearness(1, pods=2),), phase="Inqueue: 4/4 tasks unschedulable")
KINDS = {1: DRAGONFLY, 2: SWITCHBOX}


def tiered(name: NodeName) -> Host | None:
    found = host(name)
    return found and replace(found, tiers=(2, 1))


def kind_of(tier: int) -> Kind | None:
    return KINDS.get(tier)


def lowest(request: Request, _gpu_type: str) -> int:
    return 1 if request.pods_per_group <= 2 else 2


def bound_at(*numbers: int) -> Gang:
    """Four pods of 8 GPUs in pairs; two dragonflies of two nodes, 4 is a node nobody knows."""
    nodes = [*NODES, NodeName("n9")]
    return gang(*(member(rank, node=nodes[at]) for rank, at in enumerate(numbers)))


def stands(found: Gang, asked: NativeAsked | None = PAIRS) -> GangStatus:
    return native_status(found, asked, TreeLookup(host=tiered, kind_of_tier=kind_of, lowest=lowest))


def test_one_of_which_a_pod_has_ended_is_bound_while_the_others_run() -> None:
    found = bound_at(0, 1, 2, 3)
    first, *others = found.members
    done = replace(first, node=None, finished=True, succeeded=True)
    status = stands(replace(found, members=(done, *others)))
    assert status.state is GangState.BOUND
    assert status.text.endswith("3 of 4 pods bound, 2 of 2 groups whole; 1 pod ended")
    assert stands(replace(found, members=tuple(others))).state is GangState.NATIVE


def test_a_gang_of_kueue_whose_old_pods_still_end_says_that_it_waits_for_them() -> None:
    gone, *others = bound_at(0, 1, 2, 3).members
    old = [replace(gone, terminating=True, uid=PodUid("old")), replace(others[0], terminating=True)]
    new = [replace(each, node=None) for each in (gone, *others)]
    of_kueue = replace(PAIRS, scheduler="Kueue", phase="")
    found = replace(bound_at(0, 1, 2, 3), members=(*old, *new), is_of_kueue=True)
    text = "none of 4 pods is bound; none is started before the old ones are gone (2 left)"
    assert stands(found, of_kueue).text.endswith(text)
    assert stands(replace(found, members=tuple(new)), of_kueue).text.endswith("is bound")
    ended = [replace(each, finished=True) for each in old]
    assert "old ones" not in stands(replace(found, members=(*ended, *new)), of_kueue).text
    runs = replace(found, members=(*old, others[1]))
    assert "old ones" not in stands(runs, of_kueue).text, "a lost pod is replaced at once"
    assert "old ones" not in stands(replace(found, is_of_kueue=False)).text


def test_one_that_runs_in_whole_groups_says_so_and_what_volcano_was_asked():
    told = stands(bound_at(0, 1, 2, 3))
    assert told.state is GangState.BOUND
    assert told.text == (
        "Volcano chooses its nodes; asked of it: 2 pods in one dragonfly (hard, tier 1), which it"
        " heeds; 4 of 4 pods bound, 2 of 2 groups whole"
    )
    assert told.places == tuple(enumerate(NODES))


@pytest.mark.parametrize("at", [(0, 2, 1, 3), (0, 4, 2, 3)])
def test_a_group_in_two_dragonflies_or_on_a_node_nobody_knows_is_split(at: tuple[int, ...]):
    ignored = NativeAsked(policies=PAIRS.policies, unheeded="Volcano ignores them")
    told = stands(bound_at(*at), ignored)
    assert told.state is GangState.SPLIT
    assert "(hard, tier 1), but Volcano ignores them; 4 of 4 pods bound" in told.text
    assert "(split: group 0" in told.text


def test_groups_that_may_be_in_one_switchbox_are_whole_there():
    far = NativeAsked(policies=(Nearness(2, pods=2),), together=Nearness(2))
    told = stands(bound_at(0, 2, 1, 3), far)
    assert told.state is GangState.BOUND
    assert "2 pods in one switchbox (hard, tier 2), all pods in one switchbox" in told.text


def test_pods_that_do_not_share_what_all_of_them_are_within_are_split_though_their_groups_are_not():
    within = replace(PAIRS, together=Nearness(1))
    told = stands(bound_at(0, 1, 2, 3), within)
    assert told.state is GangState.SPLIT
    assert told.text.endswith("2 of 2 groups whole; its pods share no dragonfly")
    assert (
        stands(bound_at(0, 1, 2, 3), replace(PAIRS, together=Nearness(2))).state is GangState.BOUND
    )


@pytest.mark.parametrize("asked", [None, NativeAsked()])
@pytest.mark.parametrize(("size", "at"), [(16, (0, 1, 2, 3)), (32, (0, 2, 1, 3))])
def test_where_nobody_asked_volcano_a_group_is_whole_in_the_lowest_tier_that_holds_it(
    asked: NativeAsked | None, size: int, at: tuple[int, ...]
):
    found = bound_at(*at)
    assert stands(replace(found, request=replace(found.request, group_size=size)), asked).state is (
        GangState.BOUND
    )
    assert stands(bound_at(0, 2, 1, 3), asked).state is GangState.SPLIT


@pytest.mark.parametrize(
    "asked",
    [NativeAsked(policies=(Nearness(None, 2),)), NativeAsked(together=Nearness(2))],
)
def test_what_its_user_asks_volcano_himself_is_no_fault_where_it_was_heeded(asked: NativeAsked):
    assert stands(bound_at(0, 2, 1, 3), asked).state is GangState.BOUND


def test_preferred_groups_may_be_split_and_a_gang_that_names_no_groups_is_not_judged():
    found = bound_at(0, 2, 1, 3)
    preferred = replace(found, request=replace(found.request, mode=PlacementMode.PREFERRED))
    assert stands(preferred).state is GangState.BOUND
    unread = stands(replace(found, ungated="its pods do not say"), NativeAsked())
    assert unread.state is GangState.BOUND
    assert unread.text.endswith("4 of 4 pods bound")


def test_one_that_waits_says_how_its_pod_group_stands():
    told = stands(gang(*(member(rank) for rank in range(4))))
    assert told.state is GangState.NATIVE
    assert told.text.endswith(
        "none of 4 pods is bound; its PodGroup is Inqueue: 4/4 tasks unschedulable"
    )


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        (None, "its PodGroup is not known yet"),
        (NativeAsked(), "asks Volcano for no groups: it was made without our webhook"),
        (NativeAsked(policies=(Nearness(None, 2),)), "2 pods as near to each other as can be"),
        (NativeAsked(policies=(Nearness(7, 2),)), "in one HyperNode (hard, tier 7)"),
    ],
)
def test_what_was_asked_is_said_in_words(asked: NativeAsked | None, keys: str):
    assert keys in stands(bound_at(0, 1), asked).text
