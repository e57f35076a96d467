"""Groups of which only some pods come need room for these, and keep the job's other rules."""

from dataclasses import replace

import pytest

from tests.gangs.jobs import dragonflies
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.machine.events import Refused
from topo.gangs.machine.gang import GangId, Member, PodUid
from topo.gangs.machine.instructions import Place
from topo.model.ids import SWITCHBOX, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.request import Request

HALVES = (1, 3)
"""The second pods of the groups 0 and 1, of two pods each."""


def question(sizes: tuple[tuple[int, int], ...], **more: object) -> Place:
    """Where the second pods of two groups go, of 8 GPUs each."""
    request = Request(pods=4, gpus_per_pod=8, group_size=16, **more)  # type: ignore[arg-type]
    wanted = tuple(
        Member(uid=PodUid(f"p{rank}"), name=f"p{rank}", rank=rank, version="1") for rank in HALVES
    )
    return Place(id=GangId("a"), ask=0, request=request, wanted=wanted, sizes=sizes)


def half_busy(*free: str) -> Capacity:
    """Two switchboxes of two dragonflies of two nodes, of which only these are free."""
    capacity = dragonflies(2, 2)
    busy = [host.name for host in capacity.hosts() if host.name not in free]
    capacity.book("others", dict.fromkeys(busy, 8))
    return capacity


def test_groups_without_room_for_a_whole_one_go_where_their_pods_have_room() -> None:
    capacity, sizes = half_busy("n1-1-1", "n2-2-1"), ((0, 1), (1, 1))
    assert isinstance(answer_place(capacity, question(()), ()), Refused)
    found = answer_place(capacity, question(sizes), ())
    assert isinstance(found, Placed)
    assert sorted(found.nodes) == ["n1-1-1", "n2-2-1"]


@pytest.mark.parametrize(("free", "answer"), [("n2-2-1", Refused), ("n1-2-1", Placed)])
def test_small_groups_stay_in_the_kind_that_all_of_the_job_must_share(
    free: str, answer: type
) -> None:
    asked = question(((0, 1), (1, 1)), within=SWITCHBOX)
    found = answer_place(half_busy("n1-1-1", free), asked, ())
    assert isinstance(found, answer)


@pytest.mark.parametrize(("other_type", "answer"), [("B", Refused), ("", Placed)])
def test_small_groups_are_of_one_gpu_type(other_type: str, answer: type) -> None:
    capacity = half_busy("n1-1-1", "n1-2-1")
    known = capacity.host(NodeName("n1-2-1"))
    assert known is not None
    capacity.upsert(replace(known, gpu_type=other_type or known.gpu_type))
    found = answer_place(capacity, question(((0, 1), (1, 1))), ())
    assert isinstance(found, answer)


def test_a_whole_group_is_placed_before_one_of_which_a_pod_is_missing() -> None:
    asked = question(((0, 1),))
    members = tuple(
        Member(uid=PodUid(f"p{rank}"), name=f"p{rank}", rank=rank, version="1")
        for rank in (1, 2, 3)
    )
    capacity = half_busy("n1-1-1", "n1-1-2", "n1-2-1")
    found = answer_place(capacity, replace(asked, wanted=members), ())
    assert isinstance(found, Placed)
    assert found.nodes[0] == "n1-2-1"
    assert {*found.nodes[1:]} == {"n1-1-1", "n1-1-2"}
