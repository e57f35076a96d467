"""Node labels on the real API server, written with an account's own rights."""

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.kubernetes.forest_master import (
    BOX,
    FLY,
    VENDOR,
    ForestMaster,
    Tree,
    forest_master,
    hypernodes,
    labels,
    wanted_hypernodes,
    wanted_labels,
)
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

MOVED: Tree = {
    **VENDOR,
    "switchbox-1": {
        "dragonfly-1": ["node-sample2"],
        "dragonfly-2": ["node-sample1", "node-sample3", "node-sample4"],
    },
}
CUT: Tree = {**VENDOR, "switchbox-1": {"dragonfly-2": ["node-sample3", "node-sample4"]}}
ACCOUNT = "topo-master"


@pytest.fixture
def names(world: World) -> list[str]:
    return [str(host.name) for host in world.nodes]


async def agreed(api: Api, tree: Tree, names: list[str]) -> bool:
    """Whether labels and HyperNodes are as the tree says."""
    are_labels_right = await labels(api) == wanted_labels(tree, names)
    return are_labels_right and await hypernodes(api) == wanted_hypernodes(tree)


def patches(cluster: Cluster, namespace: str) -> list[str]:
    """The nodes that the master has patched so far, in order.

    The API server writes its audit log after its answer, so a write is seen here a moment later.
    """
    made = cluster.calls(f"{namespace}:{ACCOUNT}")
    return [call.name for call in made if (call.verb, call.resource) == ("patch", "nodes")]


async def follows(master: ForestMaster, api: Api, tree: Tree, names: list[str]) -> float:
    """Seconds from the change of the file until labels and HyperNodes agree with it."""
    began_s = time.monotonic()
    master.declare(tree)
    await eventually(lambda: agreed(api, tree, names))
    return time.monotonic() - began_s


async def test_labels_and_hypernodes_follow_a_cut_a_move_and_a_healed_cable(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path, names: list[str]
) -> None:
    async with forest_master(cluster, namespace, tmp_path, VENDOR) as master:
        await eventually(lambda: agreed(api, VENDOR, names))
        took = {
            name: round(await follows(master, api, tree, names), 2)
            for name, tree in (("cut", CUT), ("healed", VENDOR), ("moved", MOVED))
        }
        print(f"seconds until labels and HyperNodes agree: {took}")


async def test_a_changed_node_costs_one_write_and_a_restart_none(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path, names: list[str]
) -> None:
    async with forest_master(cluster, namespace, tmp_path, VENDOR) as master:
        await eventually(lambda: agreed(api, VENDOR, names))
        await eventually(lambda: sorted(patches(cluster, namespace)) == sorted(names[:8]))
        master.declare(MOVED)
        await eventually(lambda: agreed(api, MOVED, names))
        await eventually(lambda: patches(cluster, namespace)[8:] == ["node-sample1"])
        master.declare(VENDOR)
        await eventually(lambda: agreed(api, VENDOR, names))
        await eventually(lambda: patches(cluster, namespace)[8:] == ["node-sample1"] * 2)
        await asyncio.to_thread(master.program.stop)
        before = len(writes(cluster, namespace))
        master.declare(CUT)  # what an earlier process wrote is taken off by the next one
        master.program.start()
        await eventually(lambda: agreed(api, CUT, names))
        due = [
            "delete hypernodes dragonfly-1",
            "patch hypernodes switchbox-1",
            "patch nodes node-sample1",
            "patch nodes node-sample2",
        ]
        await eventually(lambda: sorted(writes(cluster, namespace)[before:]) == due)


async def test_a_label_edited_by_hand_is_repaired_and_the_label_of_another_stays(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path, names: list[str]
) -> None:
    path = "/api/v1/nodes/node-sample1"
    async with forest_master(cluster, namespace, tmp_path, VENDOR) as master:
        await eventually(lambda: agreed(api, VENDOR, names))
        await api.merge(path, {"metadata": {"labels": {FLY: "wrong", BOX: None, "own": "stays"}}})
        await eventually(lambda: agreed(api, VENDOR, names))
        assert (await api.get(path))["metadata"]["labels"]["own"] == "stays"
        told = "a field that another manager had is taken over"
        await eventually(lambda: told in master.program.log.read_text())


async def test_a_node_that_is_deleted_is_not_made_again(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path, names: list[str]
) -> None:
    async with forest_master(cluster, namespace, tmp_path, VENDOR) as master:
        await eventually(lambda: agreed(api, VENDOR, names))
        node = await api.get("/api/v1/nodes/node-sample1")
        try:
            await api.delete("/api/v1/nodes/node-sample1")
            for tree in (CUT, MOVED, VENDOR):
                master.declare(tree)
                await eventually(partial(_labelled, api, tree, names[1:]))
            assert "node-sample1" not in await labels(api)
        finally:
            await api.create("/api/v1/nodes", _anew(node))


def writes(cluster: Cluster, namespace: str) -> list[str]:
    """All calls of the master that change something of the cluster, in order."""
    made = cluster.calls(f"{namespace}:{ACCOUNT}")
    return [
        f"{call.verb} {call.resource} {call.name}"
        for call in made
        if call.verb in {"create", "update", "patch", "delete"}
    ]


async def _labelled(api: Api, tree: Tree, names: list[str]) -> bool:
    return await labels(api) == wanted_labels(tree, names)


def _anew(node: Any) -> Any:
    """The node as a test may create it once more."""
    metadata = {key: node["metadata"][key] for key in ("name", "labels")}
    kept = {key: value for key, value in metadata["labels"].items() if key not in {FLY, BOX}}
    return {"metadata": {**metadata, "labels": kept}, "status": node["status"]}
