"""A gang whose pods claim devices goes where its claims can have them, on the real scheduler."""

from typing import Any

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.programs import KUBE, NEWEST
from tests.e2e.scheduling import asking, devices
from tests.e2e.scheduling.gang_master import GangMaster
from tests.e2e.scheduling.jobs import BATCH_JOBS, are_as_planned, bound, pods_of, template
from tests.support.waiting import eventually
from topo.gangs.stamp import Stamp
from topo.sim.worlds.presets import World

pytestmark = pytest.mark.skipif(KUBE is not NEWEST, reason="resource.k8s.io/v1 is not served here")


def job(name: str) -> Any:
    """Four pods of eight GPUs in pairs, each with a claim of its own."""
    made = asking.batch_job(name, 4)
    made["spec"]["template"] = template(Stamp(4, 0, 2), 16)
    devices.claim(made["spec"]["template"]["spec"], 1)
    return made


async def test_a_gang_goes_where_its_devices_are_and_waits_for_those_that_others_have(
    api: Api, master: GangMaster, world: World
) -> None:
    """Only the last two pairs of nodes have devices; by GPUs all have room."""
    nodes = [str(host.name) for host in world.nodes]
    equipped = nodes[-4:]
    await devices.define(api, 1)
    for node in equipped:
        await devices.publish(api, node, 1)
    try:
        await api.create(BATCH_JOBS, job("first"))
        await eventually(lambda: bound(api, "first", 4))
        found = await pods_of(api, "first")
        assert sorted(each.node for each in found) == sorted(equipped)
        assert are_as_planned(found, 2)

        await api.create(BATCH_JOBS, job("second"))
        told = "lack devices of class nics (a pod takes 1)"

        async def is_told() -> bool:
            gang = await master.gang("second")
            return gang.get("state") == "no-room" and told in gang.get("text", "")

        await eventually(is_told)
        assert all(each.gated for each in await pods_of(api, "second"))
        await api.delete(f"{BATCH_JOBS}/first")
        await eventually(lambda: bound(api, "second", 4))
        assert sorted(each.node for each in await pods_of(api, "second")) == sorted(equipped)
    finally:
        for name in ("first", "second"):
            await api.delete(f"{BATCH_JOBS}/{name}")
        await devices.withdraw(api, 1)
