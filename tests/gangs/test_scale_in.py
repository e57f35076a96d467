"""The order in which pods go when a Deployment is scaled in."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.controllers.nomination.gangs.members import present_members
from master.controllers.nomination.writing.gang_writes import pod_patch
from master.kube.gang_pod import GangPod
from tests.controllers.nomination.objects import WORDS, gang_context, gated_pod, parse
from topo.gangs.machine.gang import GangId, Member, Note, PodUid, Selection
from topo.gangs.machine.instructions import Nominate, Open
from topo.gangs.scale_in import DELETION_COST, deletion_costs
from topo.gangs.stamp import Stamp
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId

GANG = GangId("set-1")


def placed(node: str, group: int) -> Note:
    """The place of a pod of this group."""
    return Note(NodeName(node), group, HoldId("h"), Selection("h"), 1, certified=True)


def opened(rank: int, group: int) -> Open:
    """The opening of a pod of a Deployment, on a node of its own."""
    member = Member(uid=PodUid(str(rank)), name="p", rank=rank, version="1", lacks_cost=True)
    return Open(GANG, member, placed(f"n{rank}", group))


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=6),
    st.sets(st.integers(0, 20)),
    st.integers(0, 20),
    st.randoms(use_true_random=False),
)
def test_scaled_in_by_any_number_at_most_one_group_is_left_in_part_and_hybrid_ones_go_first(
    sizes: list[int], hybrid: set[int], gone: int, order: Random
) -> None:
    """Pods of one cost go in any order, as Kubernetes takes them."""
    groups = [group for group, size in enumerate(sizes) for _ in range(size)]
    pods = [opened(at, group) for at, group in enumerate(groups)]
    costs = deletion_costs(pods, lambda node: int(node[1:]) in hybrid)
    assert all(-(2**31) <= cost <= 0 for cost in costs.values())
    shuffled = list(pods)
    order.shuffle(shuffled)
    left = sorted(shuffled, key=lambda pod: costs[pod.pod.uid])[gone:]
    there = Counter(pod.note.group for pod in left)
    assert sum(there[group] != sizes[group] for group in there) <= 1
    mixed = {groups[at] for at in hybrid if at < len(groups)}
    if mixed & there.keys():
        assert there.keys() >= set(range(len(sizes))) - mixed


def replica(**annotations: str) -> dict[str, object]:
    """A pod of a Deployment's ReplicaSet, as the API server has it."""
    made = gated_pod(0, Stamp(2, 0, 2), uid=GANG, **annotations)
    metadata = made["metadata"]
    del metadata["annotations"]["batch.kubernetes.io/job-completion-index"]
    metadata["annotations"][WORDS.kind] = "deployment"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "serve-5d4"}
    metadata["ownerReferences"] = [{**owner, "uid": GANG, "controller": True}]
    metadata |= {"name": "serve-1", "uid": "uid-1", "labels": {"pod-template-hash": "5d4"}}
    return made


@pytest.mark.parametrize(
    ("stated", "written"), [({}, "-3"), ({DELETION_COST: "7"}, None)], ids=["none", "its-own"]
)
def test_the_cost_is_written_when_the_gate_is_opened_and_a_stated_one_stays(
    stated: dict[str, str], written: str | None
) -> None:
    pod = parse(replica(**stated))
    assert isinstance(pod, GangPod)
    (member,) = present_members([pod], gang_context())
    note = placed("n1", 3)
    opening = Open(GANG, member, note)
    costs = deletion_costs([opening], lambda _: False)
    patch = pod_patch(opening, "jobs", WORDS, deletion_cost=costs.get(member.uid))
    assert patch.fields["metadata"]["annotations"].get(DELETION_COST) == written
    nomination = Nominate(GANG, member, note, note.node)
    asked = pod_patch(nomination, "jobs", WORDS, deletion_cost=costs.get(member.uid))
    assert DELETION_COST not in asked.fields["metadata"]["annotations"]
