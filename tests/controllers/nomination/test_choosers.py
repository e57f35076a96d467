"""Leaders without GPUs, by whose node the domain of a gang is chosen: read, held back, opened."""

import asyncio
from typing import Any

import pytest

from master.controllers.nomination.gangs.builder import build_gang
from master.kube.objects import PODS
from tests.controllers.nomination.gang_world import GangWorld, gang_world, is_open, nominated
from tests.controllers.nomination.masters import NODE_NAMES
from tests.controllers.nomination.objects import GANG, WORDS, gang_context, labelled_node, pod
from topo.gangs.machine.instructions import OpenUnplanned
from topo.gangs.machine.record import restore_record
from topo.gangs.machine.write_order import next_writes, progress_of
from topo.gangs.stamp import Stamp
from topo.placement.job.request import OwnDomains

RACK = "rack"
FOUR = Stamp(4, 0, 2, own_domains=(OwnDomains(1, 4, RACK),))
LATE = {WORDS.is_late: "true"}
OPEN: Any = ()


def leader(**spec: Any) -> Any:
    """The only pod that there is: its stamp says how many others will come."""
    return pod(0, stamp=FOUR, gpus=0, group="", annotations=LATE, **spec)


def test_from_a_leader_alone_all_of_its_workers_are_known() -> None:
    gang = build_gang(GANG, [leader()], gang_context())
    assert (gang.request.pods, gang.request.gpus_per_pod, gang.ungated) == (4, 8, "")
    assert [(each.rank, each.is_expected) for each in gang.members] == [
        (rank, True) for rank in range(4)
    ]
    assert [each.name for each in gang.choosers] == ["train-worker-0"]
    worker = pod(1, stamp=FOUR, group="", annotations=LATE)
    both = build_gang(GANG, [leader(), worker], gang_context())
    assert [each.rank for each in both.members if not each.is_expected] == [1]
    assert both.fewest_gpus == 0


def test_the_workers_of_a_leader_that_runs_are_expected_in_its_domain() -> None:
    """Also where the pod selects no domain, as it was made while no master reviewed pods."""
    nodes = [labelled_node(name, rack=rack) for name, rack in (("n1", "r1"), ("n2", "r2"))]
    context = gang_context(nodes=lambda: nodes)
    for spec in ({"nodeName": "n2"}, {"nodeSelector": {RACK: "r2"}}):
        gang = build_gang(GANG, [leader(gates=OPEN, **spec)], context)
        assert gang.request.eligible.selector == ((RACK, "r2"),)
        assert not gang.choosers[0].gated
    assert build_gang(GANG, [leader()], context).request.eligible.selector == ()


def test_only_the_first_part_follows_the_leader() -> None:
    """Of subgroups the leader is in the first, and the others are in domains of their own."""
    stamp = Stamp(6, 0, 2, own_domains=(OwnDomains(1, 2, RACK), OwnDomains(2, 2, RACK)))
    first = pod(0, stamp=stamp, gpus=0, group="", gates=OPEN, nodeSelector={RACK: "r2"})
    workers = [pod(rank, stamp=stamp, group="") for rank in range(6)]
    for there in ([], workers[1:], workers):
        request = build_gang(GANG, [first, *there], gang_context()).request
        found = [request.eligible_of(rank).selector for rank in range(6)]
        assert found == [((RACK, "r2"),)] * 2 + [()] * 4


def test_a_pod_that_says_alone_that_its_gang_needs_domains_is_opened_without_one() -> None:
    """Stamps are on pods, which their users may write."""
    plain = pod(0, stamp=Stamp(4, 0, 2), group="", annotations=LATE)
    odd = pod(1, stamp=FOUR, gpus=0, group="", annotations=LATE)
    gang = build_gang(GANG, [plain, odd], gang_context())
    assert not gang.request.own_domains
    record = restore_record(gang)
    written = next_writes(record, progress_of(record)).values()
    assert [type(each) for each in written] == [OpenUnplanned]


def test_a_leader_without_gpus_that_has_no_gate_did_not_slip_through() -> None:
    assert not leader(gates=OPEN).bypassed_webhook
    assert pod(0, stamp=FOUR, gates=OPEN).bypassed_webhook


def in_racks(world: GangWorld) -> None:
    for number, name in enumerate(NODE_NAMES):
        labels = world.api.objects["/api/v1/nodes", name].document["metadata"]["labels"]
        labels[RACK] = f"r{number // 4}"
        world.api.touch("/api/v1/nodes", name)


@pytest.mark.virtual_time
async def test_a_leader_is_opened_in_the_rack_where_its_workers_are_kept_and_they_follow_it() -> (
    None
):
    async with gang_world() as world:
        in_racks(world)
        world.take("node-1")
        container = {"name": "main", "resources": {}}
        first = world.add_pod(0, stamp=FOUR, containers=[container])
        first.document["metadata"]["annotations"] |= LATE
        world.api.touch("/api/v1/namespaces/jobs/pods", "pod-0")
        await asyncio.sleep(5)
        assert is_open(first)
        assert first.document["spec"]["nodeSelector"] == {RACK: "r1"}
        assert world.holds() == 1
        first.document["spec"]["nodeName"] = "node-5"
        world.api.touch("/api/v1/namespaces/jobs/pods", "pod-0")
        workers = []
        for rank in range(4):
            made = world.add_pod(rank, job="workers", stamp=FOUR, nodeSelector={RACK: "r1"})
            metadata = made.document["metadata"]
            metadata["ownerReferences"] = first.document["metadata"]["ownerReferences"]
            metadata["annotations"] |= LATE
            world.api.touch("/api/v1/namespaces/jobs/pods", metadata["name"])
            workers.append(made)
        await asyncio.sleep(5)
        assert all(map(is_open, workers))
        assert {nominated(each) for each in workers} == {*NODE_NAMES[4:]}


@pytest.mark.virtual_time
async def test_a_leader_whose_workers_have_no_room_waits() -> None:
    async with gang_world() as world:
        in_racks(world)
        for name in ("node-1", "node-5"):
            world.take(name)
        made = world.add_pod(0, stamp=FOUR, containers=[{"name": "main", "resources": {}}])
        made.document["metadata"]["annotations"] |= LATE
        world.api.touch("/api/v1/namespaces/jobs/pods", "pod-0")
        await asyncio.sleep(5)
        assert not is_open(made)
        world.api.remove(PODS, "taker-node-5", "others")
        await asyncio.sleep(5)
        assert made.document["spec"]["nodeSelector"] == {RACK: "r1"}
