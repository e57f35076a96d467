"""The manual's files byte for byte: one master with the chart's rights, and stock Volcano."""

from pathlib import Path

import yaml

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling.admission_master import admission_master
from tests.e2e.scheduling.gang_master import document
from tests.e2e.scheduling.jobs import JOBS, PODS, are_whole, bound, events_of, pods_of, taker
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

VENDOR = Path(__file__).parent / "vendor"


async def test_the_vendors_sample_as_it_is_gets_one_whole_group_through_webhook_and_controller(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    sample = yaml.safe_load((VENDOR / "sample-volcano-supernode.yaml").read_text())
    name = sample["metadata"]["name"]
    first = str(world.nodes[0].name)
    await api.create(PODS, taker(f"taker-{first}", first))

    async def is_told() -> bool:
        return "GangBound" in await events_of(api, name)

    async with admission_master(cluster, api, tmp_path):
        (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
        await api.create(JOBS, sample)
        await eventually(lambda: bound(api, name, 8))
        pods = await pods_of(api, name)
        assert [each.node for each in pods] == [each.planned for each in pods]
        assert are_whole(world, "switchbox", [each.node for each in pods], 8)
        await eventually(is_told)
