"""ProvisioningRequests on a model of the API server: their course, and pods that consume them."""

import asyncio
from itertools import count

import pytest

from master.kube.objects import NODES, PODS
from tests.controllers.nomination.masters import FLIES, NODE_NAMES, Way, until
from tests.controllers.nomination.objects import PAIR, WORDS, gated_pod
from tests.controllers.provisioning.request_world import (
    EPOCH_S,
    RequestCluster,
    server_now,
    stamp,
    unplugged,
)
from tests.kube.api_model import Stored
from topo.gangs.annotation_keys import CONSUMES
from topo.gangs.stamp import Stamp
from topo.model.ids import NodeName

pytestmark = pytest.mark.virtual_time
NOMINATED = "nominatedNodeName"


def is_open(pod: Stored) -> bool:
    return not pod.document["spec"]["schedulingGates"]


def node_of(pod: Stored) -> str:
    return str(pod.document["status"].get(NOMINATED, ""))


def whole_pairs(nodes: list[str]) -> bool:
    return all({*nodes[at : at + 2]} in FLIES for at in range(0, len(nodes), 2))


async def test_a_request_gets_whole_groups_is_told_their_names_and_ends_to_the_second():
    cluster = RequestCluster()
    async with cluster.master() as master:
        cluster.template()
        cluster.ask("one", 4, **{"gpu-group-size": "16"})
        await until(lambda: "Provisioned" in cluster.true("one"))
        assert cluster.true("one") == ["Accepted", "Provisioned"]
        details = cluster.details("one")
        nodes = details["nodes"].replace(";", ",").split(",")
        assert whole_pairs(nodes)
        assert details["switchbox"] == "box-1"
        assert "dragonfly" not in details
        assert len(details["groups"].split("; ")) == 2
        assert master.booked == dict.fromkeys(nodes, 8)
        since = cluster.conditions("one")["Provisioned"]["lastTransitionTime"]
        until_s = int(server_now()) + 600  # the second in which it was written
        await asyncio.sleep(until_s - 1 - server_now())
        assert cluster.true("one") == ["Accepted", "Provisioned"]
        assert master.booked
        await asyncio.sleep(1.5)
        assert cluster.true("one") == ["Accepted", "Provisioned", "BookingExpired"]
        ended = cluster.conditions("one")["BookingExpired"]["lastTransitionTime"]
        assert (since, ended) == (stamp(until_s - 600), stamp(until_s))
        await asyncio.sleep(1)
        assert not master.booked


async def test_the_size_of_a_group_may_stand_on_the_template():
    cluster = RequestCluster()
    async with cluster.master():
        within = {"metax-tech.com/gpu-group-within": "switchbox"}
        cluster.template(**{"metax-tech.com/gpu-group-size": "16"}, **within)
        cluster.ask("one", 2)
        await until(lambda: "Provisioned" in cluster.true("one"))
        assert {*cluster.details("one")["nodes"].split(",")} in FLIES
        assert cluster.details("one")["inside"] == "switchbox switchbox-1"


async def test_a_request_without_room_waits_says_why_and_fails_with_the_smallest_change():
    cluster = RequestCluster()
    async with cluster.master():
        for pair in FLIES:
            cluster.take(min(pair))
        cluster.template()
        cluster.ask("one", 2, **{"gpu-group-size": "16", "ValidUntilSeconds": "60"})
        await asyncio.sleep(50)
        assert cluster.true("one") == ["Accepted"]
        waiting = cluster.conditions("one")["Provisioned"]
        assert (waiting["status"], waiting["reason"]) == ("False", "Waiting")
        assert "whole group" in waiting["message"]
        await asyncio.sleep(15)
        assert cluster.true("one") == ["Accepted", "Failed"]
        failed = cluster.conditions("one")["Failed"]["message"]
        assert "whole group" in failed
        assert "fit" in failed
        assert cluster.conditions("one")["Failed"]["lastTransitionTime"] == stamp(EPOCH_S + 60)


async def test_a_request_that_waits_gets_what_becomes_free():
    cluster = RequestCluster()
    async with cluster.master():
        for pair in FLIES:
            cluster.take(min(pair))
        cluster.template()
        cluster.ask("one", 2, **{"gpu-group-size": "16"})
        await asyncio.sleep(50)

        cluster.api.remove(PODS, f"taker-{min(FLIES[2])}", "others")
        await until(lambda: "Provisioned" in cluster.true("one"))
        assert {*cluster.details("one")["nodes"].split(",")} == FLIES[2]


async def test_a_request_that_waits_gets_a_node_that_its_affinity_allows_later():
    term = {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["old"]}]}
    wanted = {"nodeSelectorTerms": [term]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}
    cluster = RequestCluster()
    async with cluster.master():
        for name in {*NODE_NAMES} - FLIES[0]:
            cluster.api.edit(NODES, name, ("metadata", "labels"), {"pool": "old"})
        cluster.take(min(FLIES[0]))
        cluster.template(spec={"affinity": affinity})
        await asyncio.sleep(1)
        cluster.ask("one", 2, **{"gpu-group-size": "16"})
        await asyncio.sleep(30)
        assert cluster.true("one") == ["Accepted"]
        for name in FLIES[2]:
            cluster.api.edit(NODES, name, ("metadata", "labels"), {"pool": "new"})
        await until(lambda: "Provisioned" in cluster.true("one"))
        assert {*cluster.details("one")["nodes"].split(",")} == FLIES[2]


async def test_what_would_fit_on_no_empty_cluster_fails_at_once():
    cluster = RequestCluster()
    async with cluster.master():
        cluster.template()
        cluster.ask("large", 9, **{"gpu-group-size": "16"})
        cluster.ask("odd", 2, **{"gpu-group-size": "12"})
        cluster.ask("long", 2, BookingSeconds="a while")
        await asyncio.sleep(10)
        assert cluster.true("large") == ["Accepted", "Failed"]
        assert cluster.true("odd") == ["Failed"]
        assert "not a multiple of the 8 GPUs" in cluster.conditions("odd")["Failed"]["message"]
        assert "BookingSeconds is 'a while'" in cluster.conditions("long")["Failed"]["message"]


async def test_a_booking_whose_node_is_closed_is_revoked_and_given_back():
    cluster = RequestCluster()
    async with cluster.master() as master:
        cluster.template()
        cluster.ask("one", 2, **{"gpu-group-size": "16"})
        await until(lambda: "Provisioned" in cluster.true("one"))
        node = cluster.details("one")["nodes"].split(",")[1]
        cluster.cordon(node)
        await asyncio.sleep(5)
        assert cluster.true("one") == ["Accepted", "Provisioned", "CapacityRevoked"]
        assert f"node {node} is cordoned" in cluster.conditions("one")["CapacityRevoked"]["message"]
        assert not master.booked


async def test_a_booking_is_revoked_where_a_pod_that_nobody_places_takes_its_gpus():
    cluster = RequestCluster()
    async with cluster.master() as master:
        cluster.template()
        cluster.ask("one", 2, **{"gpu-group-size": "16"})
        await until(lambda: "Provisioned" in cluster.true("one"))
        node = cluster.details("one")["nodes"].split(",")[0]
        cluster.take(node)
        await asyncio.sleep(5)
        assert cluster.true("one") == ["Accepted", "Provisioned", "CapacityRevoked"]
        assert node in cluster.conditions("one")["CapacityRevoked"]["message"]
        assert not master.booked


async def test_a_booking_is_revoked_where_a_cable_no_longer_joins_its_group():
    cluster = RequestCluster()
    async with cluster.master() as master:
        cluster.template()
        cluster.ask("one", 2, **{"gpu-group-size": "16"})
        await until(lambda: "Provisioned" in cluster.true("one"))
        pair = cluster.details("one")["nodes"].split(",")
        master.leader.placements.state.follow(unplugged(*pair))
        await asyncio.sleep(5)
        assert cluster.true("one") == ["Accepted", "Provisioned", "CapacityRevoked"]
        assert "would be split" in cluster.conditions("one")["CapacityRevoked"]["message"]
        assert not master.booked


async def test_a_booking_that_a_person_releases_is_revoked():
    cluster = RequestCluster()
    async with cluster.master() as master:
        cluster.template()
        cluster.ask("one", 2, **{"gpu-group-size": "16"})
        await until(lambda: "Provisioned" in cluster.true("one"))
        await asyncio.sleep(1)
        (hold,) = master.leader.placements.state.holds()
        assert hold.wish.key is not None
        assert hold.wish.key.endswith("/jobs/one")
        master.leader.placements.holds.release(hold.id)
        await asyncio.sleep(5)
        assert cluster.true("one") == ["Accepted", "Provisioned", "CapacityRevoked"]
        assert "released by somebody else" in str(cluster.conditions("one")["CapacityRevoked"])


async def test_a_deleted_request_gives_its_groups_back():
    cluster = RequestCluster()
    async with cluster.master() as master:
        cluster.template()
        cluster.ask("one", 8, **{"gpu-group-size": "16"})
        await until(lambda: "Provisioned" in cluster.true("one"))
        cluster.ask("two", 8, **{"gpu-group-size": "16"})
        await asyncio.sleep(5)
        assert cluster.true("two") == ["Accepted"]
        cluster.delete("one")
        await until(lambda: "Provisioned" in cluster.true("two"))
        assert sum(master.booked.values()) == 64


@pytest.mark.parametrize("older", [False, True], ids=["today's words", "older words"])
async def test_pods_of_no_stamped_job_get_the_nodes_that_their_request_booked(*, older: bool):
    """They have no index; the two pairs that the engine would choose by itself are others."""
    cluster = RequestCluster()
    async with cluster.master() as master:
        cluster.template()
        cluster.take("node-1")
        cluster.ask("one", 4, **{"gpu-group-size": "16"})
        await until(lambda: "Provisioned" in cluster.true("one"))
        booked = {*cluster.details("one")["nodes"].replace(";", ",").split(",")}

        cluster.api.remove(PODS, "taker-node-1", "others")
        pods = [cluster.consumer(f"pod-{index}", "one", older=older) for index in range(4)]
        await until(lambda: all(map(is_open, pods)))
        assert {node_of(pod) for pod in pods} == booked
        await asyncio.sleep(700)
        assert cluster.true("one") == ["Accepted", "Provisioned", "BookingExpired"]
        assert all(node_of(pod) in booked for pod in pods)
        assert max(master.leader.placements.state.capacity.used(NodeName(n)) for n in booked) == 8


async def test_pods_of_a_stamped_job_take_over_what_their_request_booked():
    cluster = RequestCluster()
    async with cluster.master():
        cluster.template()
        cluster.take("node-1")
        cluster.ask("one", 2, **{"gpu-group-size": "16"})
        await until(lambda: "Provisioned" in cluster.true("one"))
        booked = {*cluster.details("one")["nodes"].split(",")}
        cluster.api.remove(PODS, "taker-node-1", "others")
        of_name, of_class = CONSUMES[0]
        asked = {of_name: "one", of_class: WORDS.provisioning_class}
        pods = [
            cluster.api.add(PODS, f"p-{rank}", **gated_pod(rank, PAIR, **asked), status={})
            for rank in range(2)
        ]
        await until(lambda: all(map(is_open, pods)))
        assert {node_of(pod) for pod in pods} == booked


async def test_what_is_booked_is_had_although_a_larger_gang_is_first_in_the_queue():
    """It waits for all nodes, and keeps what becomes free."""
    cluster = RequestCluster()
    async with cluster.master():
        cluster.template()
        cluster.ask("one", 2, **{"gpu-group-size": "16"})
        await until(lambda: "Provisioned" in cluster.true("one"))
        booked = {*cluster.details("one")["nodes"].split(",")}
        all_nodes = Stamp(pods=8, rank_offset=0, pods_per_group=2)
        large = [
            cluster.api.add(PODS, f"large-{rank}", **gated_pod(rank, all_nodes), status={})
            for rank in range(8)
        ]
        await asyncio.sleep(10)
        pods = [cluster.consumer(f"pod-{index}", "one") for index in range(2)]
        await until(lambda: all(map(is_open, pods)))
        assert {node_of(pod) for pod in pods} == booked
        assert not any(map(is_open, large))


async def test_pods_wait_until_their_request_is_decided_and_are_placed_in_any_case():
    cluster = RequestCluster()
    async with cluster.master():
        pods = [cluster.consumer(f"pod-{index}", "one") for index in range(2)]
        await asyncio.sleep(30)
        assert not any(map(is_open, pods))
        (condition,) = pods[0].document["status"]["conditions"]
        assert "ProvisioningRequest one is not there yet" in condition["message"]
        cluster.template()
        cluster.ask("one", 2, **{"gpu-group-size": "16", "BookingSeconds": "1"})
        await until(lambda: all(map(is_open, pods)))
        assert {node_of(pod) for pod in pods} in FLIES


async def test_a_pod_that_bypassed_the_webhook_takes_its_gpus_from_the_booking():
    cluster = RequestCluster()
    async with cluster.master() as master:
        cluster.template()
        cluster.ask("one", 2, **{"gpu-group-size": "16"})
        await until(lambda: "Provisioned" in cluster.true("one"))
        node, other = cluster.details("one")["nodes"].split(",")
        cluster.consumer("pod-0", "one", schedulingGates=[], nodeName=node)
        await asyncio.sleep(5)
        capacity = master.leader.placements.state.capacity
        assert (capacity.used(NodeName(node)), capacity.used(NodeName(other))) == (8, 8)
        assert cluster.true("one") == ["Accepted", "Provisioned"]


async def test_a_master_that_dies_at_any_write_is_continued_by_the_next_one():
    """With what it had on disk, and without: the promise is kept or taken back, and never twice."""
    for dies_after in count(1):
        cluster = RequestCluster()
        cluster.template()
        cluster.ask("one", 4, **{"gpu-group-size": "16"})
        cluster.ask("two", 6, **{"gpu-group-size": "16", "ValidUntilSeconds": "30"})
        way = Way(cluster.api, dies_after, "landed" if dies_after % 2 else "lost")
        async with cluster.master(way) as first:
            with_end = asyncio.ensure_future(way.died.wait())
            await asyncio.wait([with_end], timeout=100)
            kept = first.leader.placements.state.persistent_state()
        if not way.died.is_set():
            break
        async with cluster.master(kept=kept if dies_after % 3 else None) as second:
            await asyncio.sleep(60)
            assert sum("Provisioned" in cluster.true(name) for name in ("one", "two")) == 1
            (got,) = (name for name in ("one", "two") if "Provisioned" in cluster.true(name))
            nodes = cluster.details(got)["nodes"].replace(";", ",").split(",")
            assert second.booked == dict.fromkeys(nodes, 8)
            assert whole_pairs(nodes)
    assert dies_after > 4


async def test_a_follower_collects_no_marks_of_what_comes_and_goes():
    cluster = RequestCluster()
    async with cluster.master(leads=False) as master:
        cluster.template()
        for number in range(3):
            cluster.ask(f"r{number}", 2)
            cluster.consumer(f"pod-{number}", f"r{number}")
            gated = gated_pod(0, Stamp(1, 0, 1), uid=f"job-{number}")
            cluster.api.add(PODS, f"job-{number}-0", **gated)
        await asyncio.sleep(1)
        for number in range(3):
            cluster.delete(f"r{number}")
            for pod in (f"pod-{number}", f"job-{number}-0"):
                cluster.api.remove(PODS, pod, "jobs")
        await asyncio.sleep(1)
        assert not master.controller._marked
        assert not master.leader.nomination.changes.index.take()


async def test_an_api_server_without_requests_is_a_warning_and_gangs_wait_for_none():
    cluster = RequestCluster()
    async with cluster.master(is_served=False) as master:
        await asyncio.sleep(9)
        assert not master.controller.warnings()
        await asyncio.sleep(2)
        (warning,) = master.controller.warnings()
        assert warning.code == "provisioning-unserved"
