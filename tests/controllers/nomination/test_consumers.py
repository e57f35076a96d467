"""Ranks of the pods that consume a request for capacity, which no job was stamped for."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from master.controllers.nomination.gangs.builder import build_gang
from master.controllers.nomination.gangs.ranks import ranked_as_consumers
from master.controllers.nomination.sources import Reservation
from master.kube.gang_pod import GangPod
from tests.controllers.nomination.objects import CREATED_S, gang_context, pod
from topo.gangs.machine.gang import Gang, Note, Selection
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import Request

BOOKED = Reservation(request=Request(pods=4, gpus_per_pod=8, group_size=16))
PODS = st.lists(
    st.tuples(st.integers(0, 3), st.none() | st.integers(0, 4)), min_size=1, max_size=12
)


def consumer(name: str, group: int | None = None, index: int = 0, **fields: Any) -> GangPod:
    """A pod that consumes the request, placed in a group or not yet."""
    found = pod(index, stamp=None, size="", group="")
    assert isinstance(found, GangPod)
    placed: dict[str, Any] = {}
    if group is not None:
        node = NodeName(f"node-{name}")
        note = Note(node, group, HoldId("h"), Selection("h"), 1, certified=True)
        placed = {"note": note, "node": node, "gated": False}
    metadata = replace(found.metadata, name=name, uid=f"uid-{name}")
    return replace(found, metadata=metadata, rank=index, consumes="asked", **{**placed, **fields})


def ranks(*pods: GangPod) -> dict[str, int]:
    """The rank of each pod by its name."""
    return {each.metadata.name: each.rank for each in ranked_as_consumers(pods, BOOKED)}


def gang_of(*pods: GangPod) -> Gang:
    context = gang_context(reservation=lambda _: BOOKED, ahead_s=CREATED_S)
    return build_gang(pods[0].gang_id, pods, context)


def test_a_new_pod_takes_the_rank_that_is_left_and_no_placed_one_changes_its_group() -> None:
    placed = [consumer("a", 0), consumer("b", 0), consumer("c", 1)]
    new = consumer("d")
    assert ranks(*placed, new) == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert ranks(*placed[1:], new, consumer("e")) == {"b": 0, "c": 2, "d": 1, "e": 3}


def test_a_pod_that_is_evicted_gives_its_rank_to_its_replacement_while_it_ends() -> None:
    staying = [consumer("a", 0), consumer("c", 1), consumer("d", 1)]
    evicted = consumer("b", 0, terminating=True)
    gang = gang_of(*staying, evicted, consumer("e"))
    assert {each.name: each.rank for each in gang.members if each.live} == {
        "a": 0,
        "e": 1,
        "c": 2,
        "d": 3,
    }
    assert gang.request.pods == 4


def test_a_place_that_was_given_up_keeps_no_pod_in_its_group() -> None:
    first = consumer("a", 1)
    assert first.note is not None
    assert ranks(replace(first, note=replace(first.note, withdrawn=True))) == {"a": 0}


@given(PODS, st.integers(1, 4))
def test_each_rank_is_given_once_in_any_order_and_within_the_group_of_a_placed_pod(
    pods: list[tuple[int, int | None]], size: int
) -> None:
    made = [consumer(f"pod-{number}", group, index) for number, (index, group) in enumerate(pods)]
    booked = Reservation(request=Request(pods=12, gpus_per_pod=1, group_size=size))
    found = ranked_as_consumers(made, booked)
    assert ranked_as_consumers(reversed(made), booked) == found
    assert len({each.rank for each in found}) == len(made)
    for group in {group for _, group in pods if group is not None}:
        of_group = [each.rank for each in found if each.note and each.note.group == group]
        inside = [rank for rank in of_group if rank // size == group]
        assert len(inside) >= min(size, len(of_group))
