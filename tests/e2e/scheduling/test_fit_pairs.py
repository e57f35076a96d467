"""What we say fits is what kube-scheduler binds; `make e2e-fits` has 2,000 pairs, 500 gangs."""

import random
from collections.abc import AsyncIterator

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.scheduling.fit_gangs import round_of_gangs
from tests.e2e.scheduling.fit_pairs import round_of_pairs
from tests.e2e.scheduling.gang_master import GangMaster
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


@pytest.mark.usefixtures("as_before")
async def test_a_gang_that_is_opened_is_bound_whatever_its_pods_ask_for(
    api: Api, master: GangMaster, world: World
) -> None:
    """Random amounts on every node, other pods and volumes there, eight random gangs at once."""
    chance = random.Random(5)  # noqa: S311 - the same each time
    seen = await round_of_gangs(api, master, world, chance, bursts=2)
    assert seen.failed == []
    assert seen.bound > 0
    assert sum(seen.waited.values()) > 0
