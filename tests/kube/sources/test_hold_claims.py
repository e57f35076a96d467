"""A pod that names a hold takes a share of it only if the hold was made for that pod."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from master.booking.state import BookingState
from master.sources.kubernetes.node_source import BEAT_S
from tests.kube.fake_server import FakeServer, fake_server
from tests.kube.sources.test_cluster_capacity import NODES, following
from tests.master.world import Master
from tests.support.kubernetes import GPU, node_status
from topo.gangs.machine.gang import gang_of_owner
from topo.model.ids import NodeName
from topo.placement.booking.events import HoldAsked
from topo.placement.booking.holds import (
    FORMAT,
    Ended,
    Gpus,
    Hold,
    HoldId,
    HoldRequest,
    HoldsMemory,
)
from topo.placement.job.plan import PlannedGroup
from topo.placement.job.request import Request

pytestmark = pytest.mark.virtual_time

JOB = Request(pods=2, gpus_per_pod=8)
NODE_A, NODE_B = (NodeName(node) for node in NODES[:2])
HELD = 16
OWNER, STRANGER = "team-a", "evil"
"""The namespace whose pods have the hold, and another one."""
NO_SHARE = "it takes no share of it"
JOB_UID = "5c0ad5d1-7f7c-4c5e-9a35-62b8a1f1f001"
GANG = gang_of_owner(OWNER, "batch/v1", "Job", JOB_UID)
KEYS = {
    "an API hold": "train-7",
    "an API hold without a key": None,
    "a gang's": f"gang/{GANG}/hold-1",
    "an extender's": f"extender/{GANG}/0/3",
    "a request's": f"provisioning/uid-1/{OWNER}/train",
    "a workload's": f"workload/uid-1/{OWNER}/train",
}
OF_API = ("an API hold", "an API hold without a key")


@dataclass
class Cluster:
    """Nodes, and pods that are bound and name a hold."""

    server: FakeServer

    async def start(self) -> None:
        for name in NODES:
            await self.server.put("nodes", name, metadata={"labels": {}}, status=node_status())

    async def bind(
        self, pod: str, node: NodeName, hold: str, namespace: str = STRANGER, rank: int = 0
    ) -> None:
        """A pod of the job whose uid everybody can read, as its creator states it."""
        job = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": JOB_UID}
        index = str(rank)
        metadata = {
            "uid": f"{namespace}-{pod}",
            "ownerReferences": [{**job, "controller": True}],
            "labels": {"batch.kubernetes.io/job-completion-index": index},
            "annotations": {
                "metax-tech.com/hold": hold,
                "metax-tech.com/gpu-group-size": "16",
                "metax-tech.com/gang-pods": "2",
                "metax-tech.com/gang-rank-offset": "0",
                "metax-tech.com/gang-pods-per-group": "2",
                "batch.kubernetes.io/job-completion-index": index,
            },
        }
        resources = {"limits": {GPU: "8"}, "requests": {GPU: "8"}}
        spec = {"nodeName": node, "containers": [{"name": "main", "resources": resources}]}
        status = {"phase": "Running"}
        await self.server.put("pods", pod, namespace, metadata=metadata, spec=spec, status=status)
        await asyncio.sleep(1)


def wish(kind: str, namespace: str = OWNER) -> HoldRequest:
    """What is asked for; only an API client names a namespace."""
    return HoldRequest(JOB, 3600, KEYS[kind], namespace if kind in OF_API else "")


def hold_on(
    state: BookingState,
    asked: HoldRequest,
    nodes: Sequence[NodeName] = (NODE_A, NODE_B),
    slack: Gpus = (),
) -> HoldId:
    """A hold of two nodes."""
    groups = (PlannedGroup(0, tail=False, pods=tuple((node, 1) for node in nodes), domains=()),)
    hold_id = HoldId("hold-1")
    booking = HoldAsked(
        id=hold_id,
        wish=asked,
        generation=1,
        mode=JOB.mode,
        gpu_type="",
        groups=groups,
        slack=slack,
    )
    state.advance(booking)
    assert isinstance(state.find_hold(hold_id), Hold)
    return hold_id


def state_of(master: Master) -> BookingState:
    return master.service.placements.state


def counts(state: BookingState) -> tuple[int, int, int]:
    """The GPUs of all nodes that pods use and that holds keep, and those beyond the nodes' own."""
    state._bookings.validate()
    nodes = state.usage().counts.values()
    assert all(node.adds_up for node in nodes)
    return (
        sum(node.used for node in nodes),
        sum(node.held for node in nodes),
        sum(node.overbooked for node in nodes),
    )


async def both_bound(cluster: Cluster, hold: HoldId, namespace: str) -> None:
    """Two pods, of rank 0 and 1, on the two nodes."""
    for rank, node in enumerate((NODE_A, NODE_B)):
        await cluster.bind(f"p{rank}", node, hold, namespace, rank)


@pytest.mark.parametrize("kind", KEYS)
async def test_a_strangers_pods_take_no_share_of_a_hold(kind: str, tmp_path: Path) -> None:
    """On nodes that the hold has not, so that no GPU is counted twice."""
    async with fake_server() as server:
        cluster = Cluster(server)
        await cluster.start()
        async with following(server, tmp_path) as master:
            await asyncio.sleep(1)
            state = state_of(master)
            hold = hold_on(state, wish(kind))
            for rank, node in enumerate(NODES[2:4]):
                await cluster.bind(f"p{rank}", NodeName(node), hold, rank=rank)
                assert counts(state) == (8 * (rank + 1), HELD, 0)
            assert isinstance(state.find_hold(hold), Hold)
            assert dict(state.bookings.awaited(hold)) == {NODE_A: 8, NODE_B: 8}


@pytest.mark.parametrize("kind", [*OF_API, "a gang's", "an extender's"])
async def test_the_pods_of_a_hold_take_their_shares_and_end_it(kind: str, tmp_path: Path) -> None:
    async with fake_server() as server:
        cluster = Cluster(server)
        await cluster.start()
        async with following(server, tmp_path) as master:
            await asyncio.sleep(1)
            state = state_of(master)
            hold = hold_on(state, wish(kind))
            await cluster.bind("p0", NODE_A, hold, OWNER, 0)
            assert counts(state) == (8, HELD - 8, 0)
            await cluster.bind("p1", NODE_B, hold, OWNER, 1)
            assert counts(state) == (HELD, 0, 0)
            assert isinstance(state.find_hold(hold), Ended)


async def test_a_hold_without_a_namespace_is_for_no_pod_by_its_annotation(tmp_path: Path) -> None:
    async with fake_server() as server:
        cluster = Cluster(server)
        await cluster.start()
        async with following(server, tmp_path) as master:
            await asyncio.sleep(1)
            state = state_of(master)
            hold = hold_on(state, wish("an API hold", namespace=""))
            await both_bound(cluster, hold, OWNER)
            assert counts(state) == (HELD, HELD, HELD), "they run on its nodes, and it is kept"
            assert isinstance(state.find_hold(hold), Hold)


async def test_of_an_extenders_hold_only_the_pods_of_its_ranks_take_shares(tmp_path: Path) -> None:
    async with fake_server() as server:
        cluster = Cluster(server)
        await cluster.start()
        async with following(server, tmp_path) as master:
            await asyncio.sleep(1)
            state = state_of(master)
            hold = hold_on(state, HoldRequest(JOB, 3600, f"extender/{GANG}/1/3"))
            await cluster.bind("p0", NodeName(NODES[2]), hold, OWNER, 0)
            assert counts(state) == (8, HELD, 0)
            await cluster.bind("p1", NODE_A, hold, OWNER, 1)
            assert counts(state) == (16, 8, 0)


@pytest.mark.parametrize("kind", [*OF_API, "a gang's", "an extender's"])
@pytest.mark.parametrize("how", ["reserved", "copied from the leader"])
async def test_it_does_not_matter_whether_the_pods_or_the_hold_are_known_first(
    kind: str, how: str, tmp_path: Path
) -> None:
    """A follower sees pods before its leader tells it their hold; a stranger knows the id, too."""
    async with fake_server() as server:
        cluster = Cluster(server)
        await cluster.start()
        async with following(server, tmp_path) as master:
            await asyncio.sleep(1)
            state = state_of(master)
            hold = hold_on(state, wish(kind))
            memory = state.persistent_state()
            state.replicate(HoldsMemory(FORMAT, ()))
            await cluster.bind("stranger", NodeName(NODES[2]), hold)
            await cluster.bind("p0", NODE_A, hold, OWNER, 0)
            assert counts(state) == (16, 0, 0)
            if how != "reserved":
                state.replicate(memory)
            else:
                hold_on(state, wish(kind), (NODE_B, NodeName(NODES[3])))
            assert counts(state) == (16, 8, 0), "at once"
            assert sum(state.bookings.awaited(hold).values()) == 8


@pytest.mark.parametrize("kind", KEYS)
async def test_after_a_restart_the_same_pods_have_the_same_shares(
    kind: str, tmp_path: Path
) -> None:
    flags = (f"--state-file={tmp_path / 'state'}",)
    async with fake_server() as server:
        cluster = Cluster(server)
        await cluster.start()
        async with following(server, tmp_path, *flags) as master:
            await asyncio.sleep(1)
            hold = hold_on(state_of(master), wish(kind))
            await cluster.bind("stranger", NodeName(NODES[2]), hold)
            await cluster.bind("p0", NODE_A, hold, OWNER, 0)
            before = counts(state_of(master))
            await asyncio.sleep(5)
        async with following(server, tmp_path, *flags) as master:
            await asyncio.sleep(1)
            assert counts(state_of(master)) == before
            own = not kind.endswith(("request's", "workload's"))
            assert before == ((16, 8, 0) if own else (16, HELD, 8))


async def test_a_pod_that_names_a_strangers_hold_is_told_and_counted_once(tmp_path: Path) -> None:
    """The doubt names that pod alone, and goes when the hold has ended."""
    async with fake_server() as server:
        cluster = Cluster(server)
        await cluster.start()
        async with following(server, tmp_path) as master:
            await asyncio.sleep(1)
            state = state_of(master)
            hold = hold_on(state, wish("an API hold"))
            for node in NODES[2:4]:  # it is told again, and has changed
                await cluster.bind("x", NodeName(node), hold)
            await cluster.bind("p0", NODE_A, hold, OWNER, 0)
            assert await doubts(master) == [
                f"pod evil/x names hold {hold}, which is for pods of namespace {OWNER}: {NO_SHARE}"
            ]
            metrics = (await master.get("/metrics")).body.decode()
            assert "topo_master_hold_claims_refused_total 1.0" in metrics
            await cluster.bind("p1", NODE_B, hold, OWNER, 1)
            assert await doubts(master) == []


async def test_a_doubt_goes_with_the_pod_and_with_its_claim(tmp_path: Path) -> None:
    async with fake_server() as server:
        cluster = Cluster(server)
        await cluster.start()
        async with following(server, tmp_path) as master:
            await asyncio.sleep(1)
            hold = hold_on(state_of(master), wish("an API hold"))
            await cluster.bind("x", NodeName(NODES[2]), hold)
            await cluster.bind("y", NodeName(NODES[3]), hold)
            assert len(await doubts(master)) == 2
            await cluster.bind("x", NodeName(NODES[2]), "")
            await server.delete("pods", "y", STRANGER)
            assert await doubts(master) == []


async def doubts(master: Master) -> Sequence[Any]:
    """What the master doubts of the objects of the cluster."""
    await asyncio.sleep(BEAT_S + 2)  # a document is at most a second old
    document = (await master.get("/v1/topology")).json
    warnings = (each for source in document["sources"] for each in source["warnings"])
    return [each["text"] for each in warnings if each["code"] == "doubtful-object"]
