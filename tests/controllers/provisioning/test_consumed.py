"""Pods that consume a request count against its booking, in whatever order a master learns."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import Any

import pytest

from tests.controllers.nomination.masters import until
from tests.controllers.provisioning.request_world import REQUESTS_AT, RequestCluster, RequestMaster
from topo.model.ids import NodeName
from topo.placement.booking.holds import FORMAT, HoldsMemory

pytestmark = pytest.mark.virtual_time
NOTHING = HoldsMemory(FORMAT, ())
ASKED = {"gpu-group-size": "16"}
PODS_AT = "/api/v1/namespaces/jobs/pods"


def booked_nodes(cluster: RequestCluster, name: str = "one") -> list[str]:
    return cluster.details(name)["nodes"].replace(";", ",").split(",")


def used(master: RequestMaster, nodes: list[str]) -> list[int]:
    """The GPUs that pods and holds take of each node."""
    capacity = master.leader.placements.state.capacity
    return [capacity.used(NodeName(node)) for node in nodes]


def kept(master: RequestMaster) -> dict[str, int]:
    """The GPUs that holds keep for pods which are not there."""
    bookings = master.leader.placements.state.bookings
    return {node: gpus for hold in bookings for node, gpus in bookings.awaited(hold.id).items()}


async def partly_running(cluster: RequestCluster, name: str = "one") -> HoldsMemory:
    """A request of four pods, of which two run on what is booked; return what is kept of holds."""
    async with cluster.master() as first:
        cluster.template()
        cluster.ask(name, 4, **ASKED)
        await until(lambda: "Provisioned" in cluster.true(name))
        for index, node in enumerate(booked_nodes(cluster, name)[:2]):
            cluster.consumer(f"pod-{index}", name, schedulingGates=[], nodeName=node)
        await asyncio.sleep(5)
        assert cluster.true(name) == ["Accepted", "Provisioned"]
        return first.leader.placements.state.persistent_state()


@pytest.mark.parametrize("name", ["one", f"long-{'x' * 125}"], ids=["a short name", "a long one"])
async def test_a_leader_whose_holds_come_after_its_pods_keeps_a_booking_that_partly_runs(name: str):
    """It follows while another leads, hears of the holds late, and takes over."""
    cluster = RequestCluster()
    memory = await partly_running(cluster, name)
    async with cluster.master(leads=False) as second:
        nodes = booked_nodes(cluster, name)
        await asyncio.sleep(1)
        assert used(second, nodes) == [8, 8, 0, 0]
        second.leader.placements.state.replicate(memory)
        assert used(second, nodes) == [8, 8, 8, 8]
        assert kept(second) == dict.fromkeys(nodes[2:], 8)
        leads = asyncio.ensure_future(second.controller.run())
        await asyncio.sleep(60)
        assert cluster.true(name) == ["Accepted", "Provisioned"]
        assert used(second, nodes) == [8, 8, 8, 8]
        leads.cancel()


async def test_in_each_order_of_holds_pods_and_requests_the_same_is_booked():
    for order in permutations(("holds", "pods", "requests")):
        cluster = RequestCluster()
        memory = await partly_running(cluster)
        nodes = booked_nodes(cluster)
        pods, requests = taken_away(cluster, PODS_AT), taken_away(cluster, REQUESTS_AT)
        async with cluster.master(leads=False) as second:
            comes: dict[str, Callable[[], Any]] = {
                "holds": partial(second.leader.placements.state.replicate, memory),
                "pods": pods,
                "requests": requests,
            }
            for each in order:
                comes[each]()
                await asyncio.sleep(1)
            assert used(second, nodes) == [8, 8, 8, 8], order
            assert kept(second) == dict.fromkeys(nodes[2:], 8), order


async def test_a_booking_ends_once_all_of_its_pods_are_bound_also_where_holds_come_late():
    cluster = RequestCluster()
    memory = await partly_running(cluster)
    nodes = booked_nodes(cluster)
    for index in (2, 3):
        cluster.consumer(f"pod-{index}", "one", schedulingGates=[], nodeName=nodes[index])
    async with cluster.master(leads=False) as second:
        await asyncio.sleep(1)
        second.leader.placements.state.replicate(memory)
        await asyncio.sleep(1)
        assert not second.booked
        assert used(second, nodes) == [8, 8, 8, 8]
        leads = asyncio.ensure_future(second.controller.run())
        await asyncio.sleep(60)
        assert cluster.true("one") == ["Accepted", "Provisioned"]
        leads.cancel()


async def test_what_pods_have_of_a_booking_stays_theirs_when_its_time_is_over():
    """Until the booking has ended, too: it lasts a little longer than its promise."""
    cluster = RequestCluster()
    memory = await partly_running(cluster)
    nodes = booked_nodes(cluster)
    async with cluster.master(leads=False) as second:
        second.leader.placements.state.replicate(memory)
        await asyncio.sleep(620)
        assert second.booked
        cluster.api.objects[PODS_AT, "pod-0"].document["status"]["phase"] = "Running"
        cluster.api.touch(PODS_AT, "pod-0")
        await asyncio.sleep(1)
        assert used(second, nodes) == [8, 8, 8, 8]


async def test_a_pod_that_was_bound_before_its_request_had_anything_takes_a_share_of_it():
    """Somebody bound it by hand on a node that is booked then, with room for it and the booking."""
    cluster = RequestCluster()
    async with cluster.master() as master:
        cluster.consumer("pod-0", "one", schedulingGates=[], nodeName="node-8")
        cluster.template()
        cluster.ask("one", 4, **ASKED)
        await until(lambda: "Provisioned" in cluster.true("one"))
        await asyncio.sleep(1)
        assert sum(used(master, [f"node-{index}" for index in range(1, 9)])) == 32


def taken_away(cluster: RequestCluster, at: str) -> Callable[[], None]:
    """Take the objects there away; return what puts them back."""
    found = {key: stored for key, stored in cluster.api.objects.items() if key[0] == at}
    for key in found:
        del cluster.api.objects[key]

    def back() -> None:
        for key, stored in found.items():
            cluster.api.objects[key] = stored
            cluster.api.touch(*key)

    return back
