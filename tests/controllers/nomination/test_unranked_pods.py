"""Gangs whose pods have no numbers: which ranks they get, and when the gang starts."""

from dataclasses import replace
from typing import Any

import pytest

from master.controllers.nomination.gangs.builder import build_gang
from master.controllers.nomination.gangs.members import AHEAD_S
from master.controllers.nomination.gangs.request import SETTLE_S
from master.kube.gang_pod import EndedPod, GangPod
from master.sources.kubernetes.pods import PodParser
from tests.controllers.nomination.objects import CREATED_S, POD, WORDS, gang_context, gated_pod
from topo.gangs import note_codec
from topo.gangs.annotation_keys import ONE_BY_ONE
from topo.gangs.machine.gang import Gang, Note, Selection, gang_of_owner
from topo.gangs.stamp import Stamp
from topo.gangs.terms import Way
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId
from topo.placement.job.policy import Policy

UID = "set-1"
OWNER = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "name": "ray",
    "uid": UID,
    "controller": True,
}
GANG = gang_of_owner("jobs", "ray.io/v1", "RayCluster", UID)
PARSER = PodParser(Policy(), WORDS, Way.NOMINATION)


def worker(name: str, *, pods: int = 4, offset: int = 0, group: int | None = None) -> GangPod:
    """A worker of a RayCluster of so many, placed in a group or not yet."""
    made: dict[str, Any] = gated_pod(0, Stamp(pods, offset, 2), uid=UID)
    metadata = made["metadata"]
    del metadata["annotations"]["batch.kubernetes.io/job-completion-index"]
    metadata["ownerReferences"] = [OWNER]
    metadata |= {"name": name, "uid": f"uid-{name}"}
    if group is not None:
        note = Note(NodeName("n"), group, HoldId("h"), Selection("h"), 1, certified=True)
        metadata["annotations"][WORDS.placement] = note_codec.encode_note(GANG, note)
    found = PARSER.parse(POD.validate_python(made))
    assert isinstance(found, GangPod)
    return found


def built(*pods: GangPod, since_s: float = 0.0) -> Gang:
    """The gang of these pods, so long after they were made."""
    return build_gang(GANG, pods, gang_context(ahead_s=CREATED_S, clock=lambda: since_s))


def ranks(gang: Gang) -> dict[str, int]:
    """The rank of each pod by its name."""
    return {member.name: member.rank for member in gang.members}


def test_pods_without_numbers_get_the_ranks_from_0_in_the_order_of_their_names() -> None:
    assert ranks(built(*map(worker, "dbca"))) == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_all_that_were_asked_for_are_awaited_at_first_and_those_there_are_after_a_while() -> None:
    early, late = (
        built(worker("a"), worker("b"), since_s=at_s) for at_s in (SETTLE_S - 1, SETTLE_S)
    )
    assert (early.request.pods, late.request.pods) == (4, 2)


def test_once_a_pod_has_passed_its_gate_those_there_are_count() -> None:
    opened = replace(worker("a", group=0), gated=False)
    assert built(opened, worker("b", group=0)).request.pods == 2


def test_a_template_that_has_fewer_pods_than_it_was_stamped_with_leaves_no_rank_out() -> None:
    gang = built(worker("a"), worker("b", offset=2), worker("c", offset=2), since_s=SETTLE_S)
    assert ranks(gang) == {"a": 0, "b": 1, "c": 2}


def test_a_pod_that_replaces_another_goes_into_its_group() -> None:
    placed = [replace(worker(name, group=at // 2), gated=False) for at, name in enumerate("abcd")]
    gone = replace(placed[1], terminating=True)
    gang = built(placed[0], gone, placed[2], placed[3], worker("e"))
    assert {name: rank for name, rank in ranks(gang).items() if name != "b"} == {
        "a": 0,
        "e": 1,
        "c": 2,
        "d": 3,
    }
    assert gang.request.pods == 4


def late(rank: int, word: str = "true", **fields: Any) -> GangPod:
    """A pod of a job of four whose later pods are made once the first run."""
    made: dict[str, Any] = gated_pod(rank, Stamp(4, 0, 2), uid=UID)
    made["metadata"]["annotations"][WORDS.is_late] = word
    made["metadata"] |= {"name": f"p{rank}", "uid": f"uid-{rank}"}
    found = PARSER.parse(POD.validate_python(made))
    assert isinstance(found, GangPod)
    return replace(found, **fields)


def test_the_ranks_without_a_pod_of_a_job_that_comes_apart_are_members_that_wait() -> None:
    gang = built(late(0, gated=False, node=NodeName("n1")), late(2))
    assert [(each.rank, each.is_expected, each.waits) for each in gang.members] == [
        (0, False, False),
        (2, False, True),
        (1, True, True),
        (3, True, True),
    ]


def test_once_a_pod_has_succeeded_nothing_is_kept_for_ranks_without_a_pod() -> None:
    ended = EndedPod(metadata=late(1).metadata, gang_id=GANG, rank=1, created_s=0.0)
    gang = build_gang(GANG, [late(0)], gang_context(ended=lambda _: (ended,)))
    assert not any(each.is_expected for each in gang.members)


@pytest.mark.parametrize(
    ("made_s", "since_s", "kept"),
    [
        ((0, 60), 60 + AHEAD_S - 1, {2, 3}),
        ((0, 60), 60 + AHEAD_S, set()),  # it was scaled in, or its last pod never gets ready
        ((0, AHEAD_S), AHEAD_S + 1, set()),  # the last pod of one that was scaled in is made again
        ((AHEAD_S, 0), AHEAD_S + 1, set()),  # so is its first one
        ((0,), 1, {1, 2, 3}),
    ],
)
def test_places_are_kept_for_the_next_pods_of_a_job_that_is_made_one_by_one_while_it_grows(
    made_s: tuple[float, ...], since_s: float, kept: set[int]
) -> None:
    pods = [
        late(at, ONE_BY_ONE, created_s=CREATED_S + s, gated=False) for at, s in enumerate(made_s)
    ]
    gang = built(*pods, since_s=since_s)
    assert {each.rank for each in gang.members if each.is_expected} == kept
    assert gang.request.pods == 4
