"""HyperNodes on the real API server with Volcano's own definition, watched by a second client."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.chaos.ports import own_ports
from tests.e2e.controlplane.client import JSON_PATCH, Api, ApiError, follow
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.core import Ports
from tests.e2e.kubernetes.forest_master import (
    FLY,
    HYPERNODES,
    VENDOR,
    ForestMaster,
    Tree,
    forest_master,
    hypernodes,
    wanted_hypernodes,
)
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

MOVES: tuple[Tree, ...] = (
    {
        **VENDOR,
        "switchbox-1": {
            "dragonfly-1": ["node-sample2"],
            "dragonfly-2": ["node-sample1", "node-sample3", "node-sample4"],
        },
    },
    {
        "switchbox-1": {"dragonfly-2": ["node-sample3", "node-sample4"]},
        "switchbox-2": {**VENDOR["switchbox-2"], "dragonfly-1": ["node-sample1", "node-sample2"]},
    },
    {"switchbox-1": {"dragonfly-1": ["node-sample3"], "dragonfly-2": ["node-sample1"]}},
    {"switchbox-1": {"dragonfly-1": ["node-sample1"], "dragonfly-2": ["node-sample3"]}},
    {"switchbox-2": {"dragonfly-9": ["node-sample1", "node-sample3"]}},
    VENDOR,
)
DEFINITION = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/hypernodes.topology.volcano.sh"
)
SPEC = {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "node-x"}}}]}


def faults(objects: Mapping[str, Any]) -> list[str]:
    """What Volcano would not trust: a member twice, one that is missing, no member at all."""
    found, holders = [], dict[tuple[str, str], str]()
    names = {each["metadata"]["name"] for each in objects.values()}
    for each in objects.values():
        name = each["metadata"]["name"]
        if not each["spec"].get("members"):
            found.append(f"{name} is empty")
        for member in each["spec"].get("members", ()):
            key = (member["type"], member["selector"]["exactMatch"]["name"])
            if holders.setdefault(key, name) != name:
                found.append(f"{key} is in {holders[key]} and in {name}")
            if key[0] == "HyperNode" and key[1] not in names:
                found.append(f"{name} names {key[1]}, which is missing")
    return found


@asynccontextmanager
async def watched(api: Api) -> AsyncIterator[list[str]]:
    """The faults that a second client sees in the tree, looking at it after each change."""
    seen, looks = list[str](), 0

    async def look() -> None:
        nonlocal looks
        async for objects in follow(api, HYPERNODES):
            seen.extend(faults(objects))
            looks += 1

    task = asyncio.create_task(look())
    await eventually(lambda: looks > 0)
    try:
        yield seen
    finally:
        assert not task.done(), "the watch ended"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def as_in(api: Api, tree: Tree, **others: set[str]) -> Callable[[], Any]:
    """Asks whether the HyperNodes are those of the tree, and these others."""

    async def asked() -> bool:
        return await hypernodes(api) == wanted_hypernodes(tree) | others

    return asked


async def test_whatever_moves_volcanos_tree_is_never_broken(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    async with watched(api) as seen:
        async with forest_master(cluster, namespace, tmp_path, VENDOR) as master:
            await eventually(as_in(api, VENDOR))
            for tree in MOVES:
                master.declare(tree)
                await eventually(as_in(api, tree))
        assert seen == []


async def test_they_are_what_volcano_reads_and_say_who_made_them(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    async with forest_master(cluster, namespace, tmp_path, VENDOR):
        await eventually(as_in(api, VENDOR))
        fly = await api.get(f"{HYPERNODES}/dragonfly-1")
        box = await api.get(f"{HYPERNODES}/switchbox-1")
        assert (fly["spec"]["tier"], fly["spec"]["tierName"]) == (1, "dragonfly")
        assert (box["spec"]["tier"], box["spec"]["tierName"]) == (2, "switchbox")
        assert {each["type"] for each in fly["spec"]["members"]} == {"Node"}
        assert {each["type"] for each in box["spec"]["members"]} == {"HyperNode"}
        assert fly["metadata"]["labels"] == {
            "metax-tech.com/managed-by": "topo-master",
            "volcano.sh/network-topology-source": "topo-master",
        }


async def test_edits_and_deletions_are_repaired(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    async with forest_master(cluster, namespace, tmp_path, VENDOR):
        await eventually(as_in(api, VENDOR))
        await api.merge(f"{HYPERNODES}/dragonfly-1", {"spec": SPEC})
        await eventually(as_in(api, VENDOR))
        no_label = {"metadata": {"labels": {"metax-tech.com/managed-by": None}}}
        before = await api.get(f"{HYPERNODES}/dragonfly-1")
        await api.merge(f"{HYPERNODES}/dragonfly-1", no_label)
        await eventually(lambda: _has_labels(api, before))
        await api.delete(f"{HYPERNODES}/dragonfly-2")
        await eventually(as_in(api, VENDOR))


async def test_one_that_waits_for_a_finalizer_of_somebody_else_holds_no_other_up(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    held = f"{HYPERNODES}/dragonfly-2"
    one = {"switchbox-1": {"dragonfly-1": VENDOR["switchbox-1"]["dragonfly-1"]}}
    less = {**one, "switchbox-2": {"dragonfly-3": VENDOR["switchbox-2"]["dragonfly-3"]}}
    async with forest_master(cluster, namespace, tmp_path, VENDOR) as master:
        await eventually(as_in(api, VENDOR))
        await api.merge(held, {"metadata": {"finalizers": ["example.com/somebody"]}})
        try:
            for tree in ({**VENDOR, **one}, less):
                master.declare(tree)
                await eventually(
                    as_in(api, tree, **{"dragonfly-2": {"node-sample3", "node-sample4"}})
                )
            master.declare(VENDOR)
        finally:
            await api.merge(held, {"metadata": {"finalizers": None}})
        await eventually(as_in(api, VENDOR))


async def test_a_hypernode_of_somebody_else_is_untouched_and_its_node_is_in_no_second_one(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    theirs = {
        "dragonfly-1": {"spec": SPEC},
        "rack": {"spec": {**SPEC, "members": [_node("node-sample3")]}},
    }
    head = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode"}
    for name, body in theirs.items():
        await api.create(HYPERNODES, {**head, "metadata": {"name": name}, **body})
    before = [await api.get(f"{HYPERNODES}/{name}") for name in theirs]
    seen_by_them = {"dragonfly-1": {"node-x"}, "rack": {"node-sample3"}}
    ours: Tree = {
        "switchbox-1": {"dragonfly-2": ["node-sample4"]},
        "switchbox-2": VENDOR["switchbox-2"],
    }
    async with forest_master(cluster, namespace, tmp_path, VENDOR) as master:
        await eventually(as_in(api, ours, **seen_by_them))
        assert [await api.get(f"{HYPERNODES}/{name}") for name in theirs] == before
        told = "a HyperNode of somebody else is in the way"
        await eventually(lambda: told in master.program.log.read_text())
        await api.delete(f"{HYPERNODES}/rack")
        await api.delete(f"{HYPERNODES}/dragonfly-1")
        await eventually(as_in(api, VENDOR))


async def test_without_volcano_labels_are_written_and_hypernodes_when_it_comes(
    tmp_path: Path, world: World
) -> None:
    """On a cluster of its own: what looks after namespaces stumbles over a kind that goes."""
    with own_ports() as ports:
        cluster = Cluster(tmp_path, Ports(*ports))
        try:
            await cluster.start(world)
            async with cluster.api() as api:
                await _serve(api, is_served=False)
                async with forest_master(cluster, "default", tmp_path, VENDOR) as master:
                    await eventually(lambda: bool(_absences(master)))
                    await eventually(lambda: _is_labelled(api, "node-sample1"))
                    await _serve(api, is_served=True)
                    await eventually(as_in(api, VENDOR))
                    assert len(_absences(master)) == 1
        finally:
            await asyncio.to_thread(cluster.stop)


def _absences(master: ForestMaster) -> list[Any]:
    """The lines of the log that say that the server has no HyperNodes."""
    told = master.program.events
    return [line for line in told if line.get("resource") == "hypernodes" and "why" in line]


async def _serve(api: Api, *, is_served: bool) -> None:
    """Has the server offer Volcano's HyperNodes, or not as before Volcano is installed."""
    change = {"op": "replace", "path": "/spec/versions/0/served", "value": is_served}
    await api.call("PATCH", DEFINITION, [change], content_type=JSON_PATCH)
    await eventually(lambda: _is_there(api) if is_served else _is_gone(api))


async def _is_labelled(api: Api, name: str) -> bool:
    return FLY in (await api.get(f"/api/v1/nodes/{name}"))["metadata"]["labels"]


async def _is_there(api: Api) -> bool:
    return not await _is_gone(api)


async def _is_gone(api: Api) -> bool:
    try:
        await api.items(HYPERNODES)
    except ApiError as error:
        if error.status != 404:
            raise
        return True
    return False


async def _has_labels(api: Api, of: Any) -> bool:
    path = f"{HYPERNODES}/{of['metadata']['name']}"
    found: bool = (await api.get(path))["metadata"]["labels"] == of["metadata"]["labels"]
    return found


def _node(name: str) -> Any:
    return {"type": "Node", "selector": {"exactMatch": {"name": name}}}
