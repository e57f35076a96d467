"""A real control plane with stock Kueue, and a master that answers ProvisioningRequests."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.controlplane.fixtures import api, baseline, cluster, mark
from tests.e2e.provisioning.lives import CONTROLLERS
from tests.e2e.scheduling.admission_master import (
    WITH_POD_GROUPS,
    AdmissionMaster,
    admission_master,
)
from tests.e2e.scheduling.gang_master import document
from topo.sim.worlds.presets import World
from topo.sim.worlds.presets import world as made

__all__ = ("api", "baseline", "cluster")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder; Kueue is tried on the newest Kubernetes alone."""
    mark(items, Path(__file__).parent, newest_only="Kueue is tried on the newest Kubernetes")


@pytest.fixture(scope="session")
def world() -> World:
    """The hosts behind the nodes: dragonflies of two, four of them in each of two switchboxes."""
    return made(2, 4, 2, 8, stem="sample")


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[Cluster]:
    """A cluster with a node for each host, which all tests share."""
    with own_cluster(tmp_path_factory.mktemp("cluster"), kueue={}) as cluster:
        asyncio.run(cluster.start(world))
        yield cluster


@pytest.fixture
async def master(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> AsyncIterator[AdmissionMaster]:
    """A master with the chart's webhook and rights, and its state in a file."""
    (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    flags = (CONTROLLERS, f"--state-file={tmp_path / 'state'}")
    async with admission_master(
        cluster, api, tmp_path, *flags, rendering=WITH_POD_GROUPS
    ) as running:
        yield running
        sys.stdout.write(running.program.log.read_text()[-8000:])  # shown where the test fails
