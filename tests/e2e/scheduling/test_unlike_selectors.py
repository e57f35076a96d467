"""A gang whose pods another gate keeper sends to different racks, as Kueue does."""

from typing import Any

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.gang_master import GangMaster
from tests.e2e.scheduling.jobs import (
    BATCH_JOBS,
    GATE,
    NODES,
    PODS,
    are_whole,
    bound,
    homes,
    pods_of,
    template,
)
from tests.support.waiting import eventually
from topo.gangs.stamp import Stamp
from topo.sim.worlds.presets import World

JOB, PODS_OF_GANG, RACK = "sent", 4, "example.com/rack"


def stamped_job() -> Any:
    job = asking.batch_job(JOB, PODS_OF_GANG)
    made = template(Stamp(PODS_OF_GANG, 0, 2), 16)
    made["spec"]["schedulingGates"] = [GATE, {"name": "example.com/queue"}]
    job["spec"]["template"] = made
    return job


async def test_each_group_goes_whole_to_the_rack_that_its_pods_select(
    api: Api, master: GangMaster, world: World
) -> None:
    """A rack is a switchbox here: a pair is sent to each."""
    racks = homes(world, "switchbox")
    for node, rack in racks.items():
        await api.merge(f"{NODES}/{node}", {"metadata": {"labels": {RACK: rack}}})
    await api.create(BATCH_JOBS, stamped_job())

    async def is_told() -> bool:
        return (await master.gang(JOB)).get("state") == "other-gate"

    await eventually(is_told)
    chosen = sorted(set(racks.values()))
    for pod in await pods_of(api, JOB):
        sent = {"schedulingGates": [GATE], "nodeSelector": {RACK: chosen[pod.rank // 2]}}
        await api.merge(f"{PODS}/{pod.name}", {"spec": sent})
    await eventually(lambda: bound(api, JOB, PODS_OF_GANG))
    nodes = [each.node for each in await pods_of(api, JOB)]
    assert [racks[node] for node in nodes] == [chosen[0], chosen[0], chosen[1], chosen[1]]
    assert are_whole(world, "dragonfly", nodes, 2)
