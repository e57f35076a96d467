"""What the extender keeps for ranks without a pod is bounded by the budget of their namespace."""

import asyncio
from pathlib import Path

import pytest

from tests.extender.model import NODES, Asking, Scheduler, asked, split_groups
from tests.kube.fake_server import FakeServer
from topo.gangs.extender.needs import GROUP_S, JOB_S

pytestmark = pytest.mark.virtual_time
EIGHT, TWO = (
    {
        "metax-tech.com/gang-pods": str(pods),
        "metax-tech.com/gang-rank-offset": "0",
        "metax-tech.com/gang-pods-per-group": "2",
    }
    for pods in (8, 2)
)
"""Sizes of jobs that state them."""


def held(asking: Asking) -> int:
    """The GPUs that holds await."""
    state = asking.master.service.placements.state
    return sum(sum(state.bookings.awaited(hold.id).values()) for hold in state.holds())


async def test_one_pod_whose_scheduler_never_asks_keeps_nodes_for_its_group_alone(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        await scheduler.pod_comes("train-0", 8, job="train", rank=0, group=16, **EIGHT)
        await asyncio.sleep(5)
        assert held(asking) == 16, "its own node, and the one of rank 1"
        ahead = asking.master.service.ahead.list_kept()
        assert [(each.namespace, each.gpus) for each in ahead] == [("jobs", 8)]


async def test_ranks_without_a_pod_keep_nodes_for_a_while_and_no_longer(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path, "--ahead-share=1") as asking:
        await scheduler.pod_comes("train-0", 8, job="train", rank=0, group=16, **EIGHT)
        await asyncio.sleep(JOB_S - 10)
        assert held(asking) == 64
        await asyncio.sleep(140)
        assert held(asking) == 16
        await asyncio.sleep(GROUP_S)
        assert held(asking) == 8, "a pod that exists has its node"


async def test_a_pod_that_asks_for_more_than_a_node_has_covers_no_other_places(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    """It states its GPUs: one of a thousand would leave a namespace without any that are ahead."""
    async with asked(server, tmp_path) as asking:
        for job in "abcd":
            await scheduler.pod_comes(f"{job}-0", 8, job=job, rank=0, group=16)
            await asyncio.sleep(3)
            await scheduler.pod_goes(f"{job}-0")
            await scheduler.pod_comes(f"{job}-0", 1000, job=job, rank=0, group=16)
            await asyncio.sleep(3)
        assert held(asking) <= 32, "two of them have a node and one ahead of it"
        assert sum(each.gpus for each in asking.master.service.ahead.list_kept()) == 16


async def test_a_job_whose_pods_all_come_is_placed_at_once_whatever_the_budget_is(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path, "--ahead-share=0") as asking:
        await scheduler.job_comes("train", 8, 8, 16, **EIGHT)
        for _ in range(10):
            for name in scheduler.waiting():
                await scheduler.schedule(asking, name)
            await asyncio.sleep(1)
        assert not scheduler.waiting()
        assert split_groups(scheduler, "train", 8, 2) == []
        assert {scheduler.node_of(f"train-{rank}") for rank in range(8)} == set(NODES)


async def test_a_group_beyond_the_budget_is_refused_with_the_numbers_and_whole_ones_are_bound(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path, "--ahead-share=0") as asking:
        for rank in (0, 1, 2):
            await scheduler.pod_comes(f"train-{rank}", 8, job="train", rank=rank, group=16, **EIGHT)
        await asyncio.sleep(4)
        found = await scheduler.schedule(asking, "train-2")
        assert not found["NodeNames"]
        (why,) = {*found["FailedNodes"].values()}
        assert why.startswith(
            "topo: namespace jobs keeps 0 of 64 GPUs ahead of its pods and may keep 0 "
            "(--ahead-share 0 of 64 GPUs): this job would keep 8 more for 1 pod that is not there"
        )
        for rank in (0, 1):
            await scheduler.schedule(asking, f"train-{rank}")
        assert scheduler.node_of("train-0")
        assert scheduler.node_of("train-1")
        await scheduler.pod_comes("train-3", 8, job="train", rank=3, group=16, **EIGHT)
        for name in ("train-2", "train-3"):
            await scheduler.schedule(asking, name)
        assert split_groups(scheduler, "train", 4, 2) == []
        assert scheduler.node_of("train-2")


async def test_all_jobs_of_a_namespace_share_its_budget(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        for job in ("a", "b", "c", "d"):
            await scheduler.pod_comes(f"{job}-0", 8, job=job, rank=0, group=16, **TWO)
        for _ in range(300):
            await asyncio.sleep(1)
            assert held(asking) <= 32, "two of them have a node and one ahead of it"
        assert held(asking) == 32
        shown = asking.master.service.ahead.shown()
        assert [(each.namespace, each.gpus, each.limit.gpus) for each in shown] == [
            ("jobs", 16, 16)
        ]
        await scheduler.pod_goes("a-0")
        await asyncio.sleep(3)
        assert held(asking) == 32
