"""NodeFeature objects on a real API server that gets their kind while a master runs."""

from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.kubernetes.forest_master import (
    FLY,
    VENDOR,
    ForestMaster,
    Tree,
    forest_master,
    labels,
    wanted_labels,
)
from tests.e2e.kubernetes.node_features import (
    collection,
    node_feature,
    node_features_served,
)
from tests.e2e.kubernetes.test_cleanup import OURS
from tests.e2e.scheduling.gang_master import api_url
from tests.support.waiting import eventually
from topo.publish.node_features import NODE_NAME_LABEL
from topo.sim.worlds.presets import World

CUT: Tree = {**VENDOR, "switchbox-1": {"dragonfly-2": ["node-sample3", "node-sample4"]}}
ALONE = {"switchbox-1": {"dragonfly-2": ["node-sample3", "node-sample4"]}}


async def test_objects_come_with_their_kind_and_follow_the_groups_and_those_of_others_stay(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path, world: World
) -> None:
    at = collection(namespace)
    names = [str(host.name) for host in world.nodes]
    on = "--controllers=node-features"
    async with forest_master(cluster, namespace, tmp_path, VENDOR, on) as master:
        await eventually(lambda: _is_ready(master))
        async with node_features_served(api):
            await eventually(lambda: _is_as(api, at, VENDOR, names))
            assert await labels(api) == wanted_labels({}, names)
            master.declare(ALONE)
            await eventually(lambda: _is_as(api, at, ALONE, names))

            await api.create(at, _object("topo-node-sample1", "node-sample1", OURS))
            await eventually(lambda: _is_as(api, at, ALONE, names))
            # No apply of ours could take away what somebody else wrote.
            stale = {FLY: "by-hand", "metax-tech.com/leaf": "stale"}
            await api.merge(f"{at}/topo-node-sample4", {"spec": {"labels": stale}})
            await eventually(lambda: _is_as(api, at, ALONE, names))

            await api.create(at, _object("topo-node-sample2", "node-sample2", {}))
            await api.create(at, _object("node-sample4", "node-sample4", {}))
            master.declare(VENDOR)
            theirs = {"topo-node-sample2": {FLY: "stale"}, "node-sample4": {FLY: "stale"}}
            await eventually(lambda: _is_as(api, at, VENDOR, names, theirs))
            assert "node-feature-conflict" in (await _warnings(master) or ())
            master.declare(CUT)
            await eventually(lambda: _is_as(api, at, CUT, names, theirs))


def _object(name: str, node: str, labels: dict[str, str]) -> dict[str, Any]:
    return node_feature(name, {NODE_NAME_LABEL: node, **labels}, {"labels": {FLY: "stale"}})


async def _found(api: Api, at: str) -> dict[str, dict[str, str]]:
    return {each["metadata"]["name"]: each["spec"]["labels"] for each in await api.items(at)}


async def _is_as(
    api: Api,
    at: str,
    tree: Tree,
    names: list[str],
    theirs: dict[str, dict[str, str]] | None = None,
) -> bool:
    """Whether each node in groups has its object, beside those of others."""
    wanted = {f"topo-{name}": found for name, found in wanted_labels(tree, names).items() if found}
    return await _found(api, at) == wanted | (theirs or {})


async def _is_ready(master: ForestMaster) -> bool:
    return bool(api_url(master.program)) and await _warnings(master) is not None


async def _warnings(master: ForestMaster) -> set[str] | None:
    """What the master warns of; None while it shows no tree."""
    url = f"{api_url(master.program)}/v1/topology"
    async with ClientSession() as session, session.get(url) as answer:
        return {each["code"] for each in (await answer.json())["warnings"]} if answer.ok else None
