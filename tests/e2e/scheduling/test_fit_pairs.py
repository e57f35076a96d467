"""What we say fits is what kube-scheduler binds; `make e2e-fits` has 2,000 pairs."""

import random
from collections.abc import AsyncIterator

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.scheduling.fit_pairs import round_of_pairs
from topo.sim.worlds.presets import World


@pytest.fixture
async def as_before(api: Api, world: World) -> AsyncIterator[None]:
    """The amounts of all nodes are put back at the end."""
    paths = [f"{NODES}/{host.name}" for host in world.nodes]
    before = {path: (await api.get(path))["status"]["allocatable"] for path in paths}
    yield
    for path, amounts in before.items():
        now = (await api.get(path))["status"]["allocatable"]
        gone = dict.fromkeys(now.keys() - amounts.keys())
        status = {"status": {"allocatable": gone | amounts, "capacity": gone | amounts}}
        await api.merge(f"{path}/status", status)


@pytest.mark.usefixtures("as_before")
async def test_a_pod_fits_by_our_count_where_kube_scheduler_binds_it(
    api: Api, world: World
) -> None:
    """Random amounts on every node, random pods there, a random pod for each."""
    pairs = await round_of_pairs(api, world, random.Random(1))  # noqa: S311 - the same each time
    assert [pair for pair in pairs if pair.differs] == []
    assert {pair.bound for pair in pairs} == {True, False}
