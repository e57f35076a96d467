"""A gang whose planned nodes others take before its gates are opened gives its plan up whole."""

from typing import Any

import aiohttp

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling.gang_master import GangMaster
from tests.e2e.scheduling.jobs import (
    JOBS,
    PODS,
    are_whole,
    bound,
    events_of,
    gang_labels,
    owner_of,
    pods_of,
    taker,
    volcano_job,
)
from tests.e2e.scheduling.shut_gates import gates_shut
from tests.support.waiting import eventually
from topo.model.rest.topology import is_group, walk
from topo.sim.worlds.presets import World


async def test_a_gang_that_lost_its_plan_leaves_nothing_behind_and_others_get_the_nodes(
    api: Api, master: GangMaster, world: World
) -> None:
    """The vendor's sample, and pods without groups that are bound to two of its planned nodes."""
    takers = [str(world.nodes[at].name) for at in (0, 8)]

    async def is_nominated() -> bool:
        return len(await _nominated(api, "sample")) == 8

    async def is_given_up() -> bool:
        reasons = await events_of(api, "sample")
        left = (await _nominated(api, "sample"), await gang_labels(api), await _booked(master))
        return "GangDoesNotFit" in reasons and left == ([], {}, dict.fromkeys(takers, 8))

    async with gates_shut(api):
        await api.create(JOBS, volcano_job("sample", 8, 64))
        await eventually(is_nominated)
        for node in takers:  # one of each switchbox
            await api.create(PODS, taker(f"taker-{node}", node))
        await eventually(is_given_up)
    await api.create(JOBS, volcano_job("six", 6, 16))
    await eventually(lambda: bound(api, "six", 6))
    assert all(each.gated for each in await pods_of(api, "sample"))
    for node in takers:
        await api.delete(f"{PODS}/taker-{node}", grace_s=0)
    await eventually(lambda: bound(api, "sample", 8))
    nodes = [each.node for each in await pods_of(api, "sample")]
    assert are_whole(world, "switchbox", nodes, 8)


async def _nominated(api: Api, job: str) -> list[str]:
    """Return the nodes to which gated pods of the job are nominated."""
    own = [pod for pod in await api.items(PODS) if owner_of(pod) == job]
    return [node for pod in own if (node := pod["status"].get("nominatedNodeName"))]


async def _booked(master: GangMaster) -> dict[str, int]:
    """Return the GPUs that pods use and holds keep on each node, by the master's own count."""
    url = f"{master.url}/v1/topology"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        document: Any = await answer.json()
    leaves = (vertex for _, vertex in walk(document["groups"]) if not is_group(vertex))
    booked = {each["name"]: each["used_gpus"] + each["held_gpus"] for each in leaves}
    return {name: gpus for name, gpus in booked.items() if gpus}
