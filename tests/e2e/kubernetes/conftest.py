"""A real control plane for the tests of this folder, started once, put back after each test."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.controlplane.cleanup import Baseline
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.controlplane.fixtures import api, baseline, cluster, mark
from tests.e2e.controlplane.hosts import Hosts
from tests.e2e.controlplane.kubelet import Kubelet
from tests.e2e.controlplane.kubelet import kubelet as running_kubelet
from tests.e2e.controlplane.kwok import REAL_PREFIX
from tests.e2e.controlplane.nodes import default_world
from tests.e2e.controlplane.release import Release
from tests.e2e.controlplane.release import release as made_release
from topo.sim.worlds.presets import World

_numbers = itertools.count(1)


__all__ = ("api", "baseline", "cluster")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder."""
    mark(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def world() -> World:
    """The hosts behind the nodes: dragonflies of two, two of them in each of two switchboxes."""
    return default_world(2)


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[Cluster]:
    """A cluster with a node for each host, which all tests share."""
    with own_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        asyncio.run(cluster.start(world))
        yield cluster


@pytest.fixture
async def namespace(api: Api) -> str:
    """A namespace of this test, whose pods kwok runs."""
    return await _namespace(api, f"test-{next(_numbers)}")


@pytest.fixture
async def real_namespace(api: Api) -> str:
    """A namespace of this test, whose pods run where a test gives them a kubelet."""
    return await _namespace(api, f"{REAL_PREFIX}{next(_numbers)}")


@pytest.fixture
def hosts(tmp_path: Path, world: World) -> Hosts:
    """What the workers of each node see in place of GPUs."""
    return Hosts(tmp_path / "hosts", world)


@pytest.fixture
async def kubelet(cluster: Cluster, hosts: Hosts, tmp_path: Path) -> AsyncIterator[Kubelet]:
    """Pods of `real-` namespaces run, and their Services lead to them."""
    async with running_kubelet(cluster, tmp_path / "kubelet", hosts.folder) as running:
        yield running
        for pod in running.pods(""):  # shown where the test fails
            print(f"{pod.path}\n{pod.log[-3000:]}")


@pytest.fixture
async def release(
    cluster: Cluster, api: Api, kubelet: Kubelet, real_namespace: str, hosts: Hosts
) -> AsyncIterator[Release]:
    """Our chart, to be installed in a namespace whose pods run."""
    async with made_release(api, kubelet, real_namespace, cluster.files.kubeconfig, hosts) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_release(
    control_plane: Cluster,
    baseline: Baseline,
    world: World,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Release]:
    """Our chart, installed for all tests of a module that run on the module's loop."""
    home = tmp_path_factory.mktemp("release")
    hosts = Hosts(home / "hosts", world)
    async with control_plane.api() as api:
        namespace = await _namespace(api, f"{REAL_PREFIX}{next(_numbers)}")
        try:
            async with (
                running_kubelet(control_plane, home / "kubelet", hosts.folder) as running,
                made_release(
                    api, running, namespace, control_plane.files.kubeconfig, hosts
                ) as made,
            ):
                try:
                    await made.install()
                    yield made
                finally:
                    for pod in running.pods(""):
                        print(f"{pod.path}\n{pod.log[-3000:]}")
        finally:
            await baseline.restore(api)


async def _namespace(api: Api, name: str) -> str:
    await api.namespace(name)
    return name
