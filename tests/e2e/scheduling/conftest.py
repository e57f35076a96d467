"""A real control plane with stock Volcano and the vendor's configuration of its scheduler."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.controlplane.fixtures import api, baseline, cluster, mark
from tests.e2e.controlplane.programs import KUBE, NEWEST
from tests.e2e.controlplane.volcano import vendor_configuration
from tests.e2e.scheduling.fixtures import world
from tests.e2e.scheduling.gang_master import GangMaster, gang_master
from tests.e2e.scheduling.scheduler_config import configure
from topo.sim.worlds.presets import World

__all__ = ("api", "baseline", "cluster", "world")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder."""
    mark(items, Path(__file__).parent)


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[Cluster]:
    """A cluster with a node for each host, which all tests share."""
    home = tmp_path_factory.mktemp("cluster")
    # The scheduler of this Volcano ends with an error on the oldest Kubernetes.
    volcano = vendor_configuration() if KUBE is NEWEST else None
    with own_cluster(home, volcano_configuration=volcano) as cluster:
        asyncio.run(cluster.start(world))
        yield cluster


@pytest.fixture
async def master(cluster: Cluster, world: World, tmp_path: Path) -> AsyncIterator[GangMaster]:
    """A master that places gangs, with the rights of an account of its own."""
    async with gang_master(cluster, world, tmp_path) as running:
        yield running
        sys.stdout.write(running.program.log.read_text()[-8000:])  # shown where the test fails


@pytest.fixture
def scheduler_file(cluster: Cluster) -> Iterator[Path]:
    """The scheduler's configuration, which it reads anew when it changes; put back at the end."""
    path = cluster.files.home / "volcano-scheduler.yaml"
    before = path.read_text()
    yield path
    configure(path, before)
