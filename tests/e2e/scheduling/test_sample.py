"""The manual's files byte for byte: one master with the chart's rights, and stock Volcano."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
import yaml

from monitoring.dashboards.boards import BOARDS
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling.admission_master import admission_master
from tests.e2e.scheduling.gang_master import document
from tests.e2e.scheduling.jobs import JOBS, PODS, are_whole, bound, events_of, pods_of, taker
from tests.monitoring.asking import Prometheus, reading, silent
from tests.support.waiting import eventually, eventually_nothing
from topo.sim.worlds.presets import World

VENDOR = Path(__file__).parent / "vendor"
PORTS = ("--server-port=9001", "--rpc-server-port=10001")
"""Other masters have to know the ports of one that stands for election."""


async def test_the_vendors_sample_as_it_is_gets_one_whole_group_through_webhook_and_controller(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    """And the dashboards show it: each query about Kubernetes and gangs has an answer."""
    sample = yaml.safe_load((VENDOR / "sample-volcano-supernode.yaml").read_text())
    name = sample["metadata"]["name"]
    first = str(world.nodes[0].name)
    await api.create(PODS, taker(f"taker-{first}", first))

    async def is_told() -> bool:
        return "GangBound" in await events_of(api, name)

    address = f"{cluster.ports.services}.201"
    credential = tmp_path / "replica-token"
    credential.write_text("of-the-other-masters")
    known = (f"--pod-ip={address}", f"--replica-token-file={credential}", *PORTS)
    with reading([f"{address}:9001"], tmp_path) as prometheus:
        async with admission_master(cluster, api, tmp_path, "--leader-elect=true", *known):
            (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
            if prometheus is not None:  # a rate is known of what was read before it grew
                await eventually(partial(asyncio.to_thread, prometheus.has_read, 1, 1))
            await api.create(JOBS, sample)
            await eventually(lambda: bound(api, name, 8))
            pods = await pods_of(api, name)
            assert [each.node for each in pods] == [each.planned for each in pods]
            assert are_whole(world, "switchbox", [each.node for each in pods], 8)
            await eventually(is_told)
            if prometheus is None:
                pytest.skip("what the dashboards show: there is no prometheus here")
            await eventually_nothing(partial(asyncio.to_thread, unanswered, prometheus))


def unanswered(prometheus: Prometheus) -> list[str]:
    """The queries about Kubernetes and gangs to which there is no answer."""
    inside = [(board, each) for board in BOARDS for each in board.sections if each.in_kubernetes]
    assert len(inside) == 2
    return list(silent(prometheus, inside, {"job": "topo-master"}))
