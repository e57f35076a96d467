"""A Volcano Job that may start with fewer pods than all of them."""

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling.jobs import (
    JOBS,
    PODS,
    are_whole,
    bound,
    events_of,
    pods_of,
    taker,
    volcano_job,
)
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

JOB = "elastic"
pytestmark = pytest.mark.usefixtures("master")


async def test_a_job_starts_with_its_min_available_in_whole_groups_and_grows_with_the_room(
    api: Api, world: World
) -> None:
    """Eight pods of which three suffice: two whole dragonflies, for there is no room for more."""
    nodes = [str(host.name) for host in world.nodes]
    for node in nodes[4:]:
        await api.create(PODS, taker(f"taker-{node}", node))
    job = volcano_job(JOB, 8, 16)
    job["spec"]["minAvailable"] = 3
    await api.create(JOBS, job)
    await eventually(lambda: bound(api, JOB, 4))

    async def is_told() -> bool:
        return (await events_of(api, JOB)).get("GangGrows", "").startswith("4 of 8 pods run; for")

    await eventually(is_told)
    found = await pods_of(api, JOB)
    assert [each.gated for each in found] == [False] * 4 + [True] * 4
    for node in nodes[4:8]:
        await api.delete(f"{PODS}/taker-{node}", grace_s=0)
    await eventually(lambda: bound(api, JOB, 8))
    found = await pods_of(api, JOB)
    assert all(each.planned == each.node for each in found)
    assert are_whole(world, "dragonfly", [each.node for each in found], 2)
