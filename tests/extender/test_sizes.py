"""How many pods of a job without gates are awaited: what its pods state, or those that came."""

import asyncio
from pathlib import Path

import pytest

from master.extender.asking_gang import FEW_GROUPS, group_sizes
from tests.extender.model import NODES, Asking, Scheduler, asked
from tests.kube.fake_server import FakeServer
from topo.gangs.extender.needs import UNSTATED_S
from topo.model.ids import NodeName
from topo.model.limits import MAX_PODS_AHEAD

pytestmark = pytest.mark.virtual_time


def sizes(pods: int) -> dict[str, str]:
    """What a job of so many pods states, in groups of two."""
    keys = {"gang-pods": pods, "gang-rank-offset": 0, "gang-pods-per-group": 2}
    return {f"metax-tech.com/{key}": str(value) for key, value in keys.items()}


def held(asking: Asking) -> int:
    """GPUs that are booked."""
    state = asking.master.service.placements.state
    return sum(state.capacity.used(NodeName(node)) for node in NODES)


@pytest.mark.parametrize("pods", [MAX_PODS_AHEAD + 1, 1_000_000])
async def test_of_a_job_that_states_more_pods_than_can_be_placed_at_once_groups_are_awaited(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path, pods: int
) -> None:
    async with asked(server, tmp_path, "--ahead-share=1") as asking:
        await scheduler.pod_comes("train-0", 8, job="train", rank=0, group=16, **sizes(pods))
        for wait_s in (3, UNSTATED_S):
            await asyncio.sleep(wait_s)
            assert held(asking) == 16, "its group, and no other one"


async def test_a_pod_with_a_rank_beyond_the_size_that_it_states_has_a_node_too(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path, "--ahead-share=1") as asking:
        for rank in (0, 1, 5):
            name = f"train-{rank}"
            await scheduler.pod_comes(name, 8, job="train", rank=rank, group=16, **sizes(2))
        await asyncio.sleep(UNSTATED_S + 3)
        assert held(asking) == 24, "nothing is kept beside it"
        for name in scheduler.waiting():
            await scheduler.schedule(asking, name)
        assert not scheduler.waiting()


async def test_a_job_that_states_no_size_is_all_there_some_time_after_its_newest_pod(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path, "--ahead-share=1") as asking:
        await scheduler.pod_comes("train-0", 2, job="train", rank=0, group=16)
        await asyncio.sleep(UNSTATED_S - 1)
        await scheduler.pod_comes("train-1", 2, job="train", rank=1, group=16)
        await asyncio.sleep(UNSTATED_S - 2)
        assert held(asking) == 16, "a whole group, though the first one is older"
        await asyncio.sleep(4)
        assert held(asking) == 4


async def test_no_more_than_a_few_groups_are_each_placed_by_a_search_of_their_own() -> None:
    """A tenant chooses the ranks of pods: each may be of another group."""
    few = [rank * 2 for rank in range(FEW_GROUPS)]
    assert group_sizes(few, 2) == tuple((group, 1) for group in range(FEW_GROUPS))
    assert group_sizes([*few, 100, 101], 2) == group_sizes(few, 2), "a whole one is not counted"
    assert group_sizes([*few, 100], 2) == ()
