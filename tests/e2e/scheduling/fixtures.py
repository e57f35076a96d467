"""Fixtures of tests of gangs on a control plane of their own, for a conftest that names its parts.

control_plane = control_plane_with(kueue={})
master = webhook_master("--controllers=labels,nomination")
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.controlplane.processes import Program
from tests.e2e.scheduling.admission_master import OWN, AdmissionMaster, admission_master
from tests.e2e.scheduling.gang_master import document
from topo.sim.worlds.presets import World
from topo.sim.worlds.presets import world as made


@pytest.fixture(scope="session")
def world() -> World:
    """The hosts behind the nodes: dragonflies of two, four of them in each of two switchboxes."""
    return made(2, 4, 2, 8, stem="sample")


async def nothing_more(_: Cluster, _api: Api) -> Sequence[Program]:
    """Starts no programs beside those of the cluster."""
    return ()


def control_plane_with(
    start: Callable[[Cluster, Api], Awaitable[Sequence[Program]]] = nothing_more, **parts: Any
) -> Any:
    """The fixture of a cluster with a node for each host and these parts, which all tests share.

    `start` starts further programs on it.
    """

    @pytest.fixture(scope="package")
    def control_plane(tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[Cluster]:
        async def begin(cluster: Cluster) -> Sequence[Program]:
            await cluster.start(world)
            async with cluster.api() as client:
                return await start(cluster, client)

        with own_cluster(tmp_path_factory.mktemp("cluster"), **parts) as cluster:
            programs = asyncio.run(begin(cluster))
            yield cluster
            for program in programs:
                program.stop(0.0)

    return control_plane


def webhook_master(*flags: str, rendering: str = OWN) -> Any:
    """The fixture of a master with the chart's webhook and rights; `{home}` in a flag is its own
    folder.
    """

    @pytest.fixture
    async def master(
        cluster: Cluster, api: Api, world: World, tmp_path: Path
    ) -> AsyncIterator[AdmissionMaster]:
        (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
        given = (each.format(home=tmp_path) for each in flags)
        async with admission_master(cluster, api, tmp_path, *given, rendering=rendering) as running:
            yield running
            sys.stdout.write(running.program.log.read_text()[-8000:])  # shown where the test fails

    return master
