"""A real control plane with the stock controllers of other kinds of jobs, on kube-scheduler."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.controlplane.fixtures import api, baseline, cluster, mark
from tests.e2e.controlplane.job_controllers import JOB_SET, LEADER_WORKER_SET, TRAINER, install
from tests.e2e.scheduling.admission_master import AdmissionMaster, admission_master
from tests.e2e.scheduling.gang_master import document
from topo.sim.worlds.presets import World
from topo.sim.worlds.presets import world as made

if TYPE_CHECKING:
    from tests.e2e.controlplane.processes import Program

__all__ = ("api", "baseline", "cluster")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder; the controllers are built for the newest Kubernetes."""
    mark(items, Path(__file__).parent, newest_only="the controllers need a newer Kubernetes")


@pytest.fixture(scope="session")
def world() -> World:
    """The hosts behind the nodes: dragonflies of two, four of them in each of two switchboxes."""
    return made(2, 4, 2, 8, stem="sample")


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[Cluster]:
    """A cluster with a node for each host and the controllers, which all tests share."""

    async def start(cluster: Cluster) -> "list[Program]":
        await cluster.start(world)
        async with cluster.api() as client:
            return await install(cluster, client, JOB_SET, LEADER_WORKER_SET, TRAINER)

    with own_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        programs = asyncio.run(start(cluster))
        yield cluster
        for program in programs:
            program.stop(0.0)


@pytest.fixture
async def master(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> AsyncIterator[AdmissionMaster]:
    """A master with the chart's webhook and rights."""
    (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    async with admission_master(cluster, api, tmp_path) as running:
        yield running
        sys.stdout.write(running.program.log.read_text()[-8000:])  # shown where the test fails
