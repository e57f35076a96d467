"""Taints and conditions of nodes, annotations of HyperNodes: what is held against nodes."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from master.cleanup.command import clean_up
from master.controllers.suspicion.node_marks import QuarantineTaint
from master.kube.objects import NODES, NodeObject, collection_path
from master.kube.schedulers.hypernodes import HYPERNODES
from tests.controllers import world as world_module
from tests.controllers.test_cleanup import add_lease, cluster
from tests.controllers.world import ClusterWorld, cluster_world, deliver
from tests.publish.forests import VENDOR
from topo.model.forest import NodeSuspicion
from topo.model.ids import NodeName

NAMES = [f"node-{index}" for index in range(1, 9)]
N1, N2 = NodeName("node-1"), NodeName("node-2")
ON = ("hypernodes", "node-taints", "node-conditions", "hypernode-annotations")
OURS = {"key": "metax-tech.com/quarantine", "value": "topo-master", "effect": "NoSchedule"}
NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "effect": "NoExecute",
    "timeAdded": "2026-01-01T00:00:00Z",
}
SUSPECTED = NodeSuspicion((("GPU 2 link 14", "505 recoveries; is down"),))
QUARANTINED = NodeSuspicion((), "cable ordered")
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "posting"}

virtual_time = pytest.mark.virtual_time


def of_node(world: ClusterWorld, name: str) -> tuple[Any, Any]:
    """The taints and the conditions of a node."""
    found = world.api.objects[collection_path(NODES), name].document
    return found.get("spec", {}).get("taints", []), found.get("status", {}).get("conditions", [])


def annotations(world: ClusterWorld) -> dict[str, dict[str, str]]:
    """The annotations of HyperNodes that have one."""
    at = collection_path(HYPERNODES)
    return {
        name: found
        for (of, name), each in world.api.objects.items()
        if of == at and (found := each.document["metadata"].get("annotations"))
    }


@virtual_time
async def test_what_is_held_against_nodes_is_on_them_and_their_hypernodes_until_it_is_cleared():
    async with cluster_world(NAMES, VENDOR, switched_on=ON) as world:
        world.api.edit(NODES, N1, ("spec", "taints"), [NOT_READY])
        world.api.edit(NODES, N1, ("status", "conditions"), [READY])
        world.suspected |= {N1: QUARANTINED, N2: SUSPECTED}
        world.publish(VENDOR)
        await deliver()
        assert of_node(world, N1) == ([{**NOT_READY, "value": ""}, OURS], [READY])
        taints, conditions = of_node(world, N2)
        assert taints == []
        assert [(each["type"], each["status"], each["reason"]) for each in conditions] == [
            ("TopoLinkCheck", "True", "TopoLinkCheckIsNotHealthy")
        ]
        text = "Link:GPU 2 link 14 505 recoveries, is down Recommended Action=CONTACT_SUPPORT;"
        assert conditions[0]["message"] == text
        assert annotations(world) == {
            name: {"metax-tech.com/suspected-nodes": N2, "metax-tech.com/quarantined-nodes": N1}
            for name in ("dragonfly-1", "switchbox-1")
        }
        world.suspected.clear()
        world.publish(VENDOR)
        await deliver()
        assert of_node(world, N1) == ([{**NOT_READY, "value": ""}], [READY])
        assert of_node(world, N2) == ([], [])
        assert annotations(world) == {}


@virtual_time
async def test_a_master_that_starts_keeps_what_is_still_held_and_takes_the_rest_away():
    async with cluster_world(NAMES, VENDOR, switched_on=ON) as world:
        world.suspected |= {N1: QUARANTINED, N2: SUSPECTED}
        world.publish(VENDOR)
        await deliver()
        before = of_node(world, N2)
        async with world.restarted(VENDOR, switched_on=ON) as again:
            again.suspected[N2] = SUSPECTED
            again.publish(VENDOR)
            writes = len(again.api.writes)
            await deliver()
            assert of_node(again, N1) == ([], [])
            assert of_node(again, N2) == before
            assert {name for _, name in again.api.writes[writes:]} <= {
                *(N1, "dragonfly-1", "switchbox-1")
            }


@virtual_time
async def test_a_taint_that_somebody_adds_meanwhile_is_not_lost():
    async with cluster_world(NAMES, VENDOR, switched_on=ON, delay_s=0.5) as world:
        world.suspected[N1] = QUARANTINED
        world.publish(VENDOR)
        await deliver(0.3)  # the write is under way
        world.api.edit(NODES, N1, ("spec", "taints"), [NOT_READY])
        await deliver()
        assert of_node(world, N1)[0] == [{**NOT_READY, "value": ""}, OURS]


@virtual_time
@pytest.mark.parametrize("late_s", [0.1, 1.0, 5.0])
async def test_a_taint_comes_soon_although_a_node_changes_that_nobody_is_told_of(
    late_s: float, monkeypatch: pytest.MonkeyPatch
):
    """As by a heartbeat: its version is another one, and nothing that is read of it. The refusal of
    the write comes before the watch shows that version.
    """
    monkeypatch.setattr(world_module, "WATCH_DELAY_S", late_s)
    async with cluster_world(NAMES, VENDOR, switched_on=ON) as world:
        await deliver(10)
        world.suspected[N1] = QUARANTINED
        world.publish(VENDOR)
        world.api.touch(collection_path(NODES), N1)
        await asyncio.sleep(3 * late_s)
        assert of_node(world, N1)[0] == [OURS]


@virtual_time
async def test_a_taint_and_a_condition_of_somebody_else_stay():
    theirs = {**OURS, "value": "by-hand"}
    condition = {"type": "TopoLinkCheck", "status": "True", "reason": "ByHand"}
    async with cluster_world(NAMES, VENDOR, switched_on=ON) as world:
        world.api.edit(NODES, N1, ("spec", "taints"), [theirs])
        world.api.edit(NODES, N1, ("status", "conditions"), [condition])
        for held in ({N1: NodeSuspicion(SUSPECTED.links, "why")}, {}):
            world.suspected.clear()
            world.suspected.update(held)
            world.publish(VENDOR)
            await deliver()
            assert of_node(world, N1) == ([theirs], [condition])
        await world.end()
        add_lease(world.api, "")
        await clean_up(cluster(world.api))
        assert of_node(world, N1) == ([theirs], [condition])


@virtual_time
async def test_a_clean_up_takes_taints_and_conditions_away():
    async with cluster_world(NAMES, VENDOR, switched_on=ON) as world:
        world.api.edit(NODES, N1, ("spec", "taints"), [NOT_READY])
        world.suspected |= {N1: NodeSuspicion(SUSPECTED.links, "why")}
        world.publish(VENDOR)
        await deliver()
        await world.end()
        add_lease(world.api, "")
        await clean_up(cluster(world.api))
        assert of_node(world, N1) == ([{**NOT_READY, "value": ""}], [])


_TAINTS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["metax-tech.com/quarantine", "a", "b"]),
        "value": st.sampled_from(["", "topo-master", "x"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
    },
    optional={"timeAdded": st.just("2026-01-01T00:00:00Z")},
)
_READ = TypeAdapter(NodeObject)


@given(st.lists(_TAINTS, unique_by=lambda each: (each["key"], each["effect"]), max_size=5))
@pytest.mark.parametrize("held", [QUARANTINED, None])
def test_all_other_taints_are_written_as_they_were(
    held: NodeSuspicion | None, taints: list[dict[str, str]]
) -> None:
    node = _READ.validate_python({"metadata": {"name": "n"}, "spec": {"taints": taints}})
    written = QuarantineTaint("metax-tech.com").difference(node, held)
    after = taints if written is None else written["spec"]["taints"]
    assert [each for each in after if each != OURS] == [each for each in taints if each != OURS]
    is_taken = any(
        (each["key"], each["effect"]) == (OURS["key"], OURS["effect"]) and each != OURS
        for each in taints
    )
    assert (OURS in after) == (held is not None and not is_taken)
    assert written is None or after != taints
