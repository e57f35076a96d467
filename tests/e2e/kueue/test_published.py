"""Topologies and flavors on real Kueue: they follow the tiers, and no running queue breaks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api, follow
from tests.e2e.controlplane.kueue import FLAVORS, QUEUES, TOPOLOGIES
from tests.e2e.kueue.queues import (
    FLAVOR,
    WORKLOADS,
    cluster_queue,
    flavor,
    open_queue,
    queued,
)
from tests.e2e.scheduling.admission_master import AdmissionMaster
from tests.e2e.scheduling.asking import batch_job, nodes_of
from tests.e2e.scheduling.jobs import BATCH_JOBS, PODS
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

FLAT = "supernode-dragonfly"
LABELS = ["metax-tech.com/switchbox", "metax-tech.com/dragonfly", "kubernetes.io/hostname"]


async def names(api: Api) -> tuple[set[str], set[str]]:
    """The topologies and the flavors that there are."""
    found = [await api.items(path) for path in (TOPOLOGIES, FLAVORS)]
    first, second = ({each["metadata"]["name"] for each in listed} for listed in found)
    return first, second


@asynccontextmanager
async def watched_queues(api: Api) -> AsyncIterator[list[str]]:
    """What a second client sees of queues that do not admit, while the block runs."""
    seen = list[str]()

    async def look() -> None:
        async for objects in follow(api, QUEUES):
            for each in objects.values():
                for condition in each.get("status", {}).get("conditions", ()):
                    if condition["type"] == "Active" and condition["status"] != "True":
                        seen.append(f"{each['metadata']['name']}: {condition['message']}")

    task = asyncio.create_task(look())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def warnings(master: AdmissionMaster) -> dict[str, str]:
    """What the master warns of, by code."""
    async with ClientSession() as session, session.get(f"{await master.url()}/v1/topology") as got:
        return {each["code"]: each["text"] for each in (await got.json())["warnings"]}


async def test_other_tiers_are_new_objects_and_a_queue_runs_until_it_names_them(
    api: Api, master: AdmissionMaster, world: World, tmp_path: Path
) -> None:
    await eventually(lambda: _are(api, {FLAVOR}))
    (topology,) = await api.items(TOPOLOGIES)
    assert [each["nodeLabel"] for each in topology["spec"]["levels"]] == LABELS
    await open_queue(api, "training", FLAVOR, 128)
    async with watched_queues(api) as seen:
        await api.create(BATCH_JOBS, queued(batch_job("first", 4), "training"))
        await eventually(lambda: _is_bound(api, "first", 4))

        (tmp_path / "new").write_text(yaml.safe_dump(_flat(world)))
        (tmp_path / "new").replace(tmp_path / "nodegroup.yaml")
        await eventually(lambda: _are(api, {FLAVOR, FLAT}))
        await eventually(lambda: _warns(master, f"ResourceFlavor {FLAVOR}"))

        # Kueue counts each flavor for itself, so the jobs of the old one have to end first.
        assert await _levels_of_all(api) == {("kubernetes.io/hostname",)}
        await api.delete(f"{BATCH_JOBS}/first")
        await eventually(lambda: _is_empty(api))
        await api.merge(f"{QUEUES}/training", {"spec": cluster_queue("", FLAT, 128)["spec"]})
        await eventually(lambda: _are(api, {FLAT}))
        assert "topology-outdated" not in await warnings(master)
        await api.create(BATCH_JOBS, queued(batch_job("second", 4), "training"))
        await eventually(lambda: _is_bound(api, "second", 4))
        assert await _levels_of_all(api) == {("kubernetes.io/hostname",)}
        assert seen == []


@pytest.mark.usefixtures("master")
async def test_a_flavor_that_is_deleted_by_hand_comes_again_and_one_of_others_stays(
    api: Api,
) -> None:
    await eventually(lambda: _are(api, {FLAVOR}))
    theirs = flavor(FLAT, nodeLabels={"pool": "a"})
    await api.create(FLAVORS, theirs)
    uid = (await api.get(f"{FLAVORS}/{FLAVOR}"))["metadata"]["uid"]
    await api.delete(f"{FLAVORS}/{FLAVOR}")
    await eventually(lambda: _is_another(api, uid))
    assert (await api.get(f"{FLAVORS}/{FLAT}"))["spec"] == theirs["spec"]


async def _are(api: Api, wanted: set[str]) -> bool:
    return await names(api) == (wanted, wanted)


async def _is_another(api: Api, uid: str) -> bool:
    found = {each["metadata"]["name"]: each for each in await api.items(FLAVORS)}
    return FLAVOR in found and found[FLAVOR]["metadata"]["uid"] != uid


async def _is_bound(api: Api, job: str, pods: int) -> bool:
    nodes = await nodes_of(api, job)
    return len(nodes) == pods and all(nodes)


async def _warns(master: AdmissionMaster, text: str) -> bool:
    return text in (await warnings(master)).get("topology-outdated", "")


async def _levels_of_all(api: Api) -> set[tuple[str, ...]]:
    """By which levels Kueue chose nodes for the workloads that there are."""
    found = [each["status"]["admission"] for each in await api.items(WORKLOADS)]
    assigned = [each["podSetAssignments"][0]["topologyAssignment"] for each in found]
    return {tuple(each["levels"]) for each in assigned}


async def _is_empty(api: Api) -> bool:
    return not await api.items(PODS) and not await api.items(WORKLOADS)


def _flat(world: World) -> Any:
    """The same dragonflies, and no switchbox above them."""
    flies: dict[str, list[Any]] = {}
    for host in world.nodes:
        node = {"name": str(host.name), "kind": "node"}
        flies.setdefault(f"{host.switchbox}-{host.dragonfly}", []).append(node)
    return {
        "group": [
            {"name": name, "kind": "dragonfly", "child": nodes} for name, nodes in flies.items()
        ]
    }
