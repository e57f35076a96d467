"""kube-scheduler without a webhook: jobs of which nothing states how many pods they have."""

import asyncio
from pathlib import Path

import pytest

from tests.extender.model import NODES, Scheduler, asked, split_groups
from tests.extender.test_groups import bind_all
from tests.kube.fake_server import FakeServer
from topo.gangs.extender.needs import UNSTATED_S
from topo.model.ids import NodeName

pytestmark = pytest.mark.virtual_time


FOUR_OF_EIGHT = (4, 2, 16)
"""A job of half a group that states no size: its pods, and the GPUs of a pod and of a group."""


async def test_a_job_smaller_than_its_group_keeps_no_places_for_pods_that_never_come(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        await scheduler.job_comes("train", *FOUR_OF_EIGHT)
        await bind_all(asking, scheduler)
        assert not scheduler.waiting()
        await asyncio.sleep(UNSTATED_S + 3)
        state = asking.master.service.placements.state
        assert state.holds() == []
        assert sum(state.capacity.used(NodeName(node)) for node in NODES) == 8


@pytest.mark.parametrize("share", ["0", "1"])
async def test_a_job_smaller_than_its_group_starts_without_room_or_budget_for_a_whole_one(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path, share: str
) -> None:
    async with asked(server, tmp_path, f"--ahead-share={share}") as asking:
        for at, node in enumerate(NODES[::2] if share == "1" else ()):
            await scheduler.pod_comes(f"half-{at}", 8)
            scheduler.pods[f"half-{at}"]["spec"]["nodeName"] = node
            await scheduler._put(f"half-{at}")
        await asyncio.sleep(1)
        await scheduler.job_comes("train", *FOUR_OF_EIGHT)
        await bind_all(asking, scheduler, tries=12)
        assert not scheduler.waiting()
        assert len({scheduler.node_of(f"train-{rank}") for rank in range(4)}) == 1


async def test_a_late_pod_of_a_job_that_states_no_size_goes_beside_its_group(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        await scheduler.job_comes("train", *FOUR_OF_EIGHT)
        await bind_all(asking, scheduler)
        await asyncio.sleep(60)
        await scheduler.pod_comes("train-4", 2, job="train", rank=4, group=16)
        await bind_all(asking, scheduler)
        assert not scheduler.waiting()
        assert split_groups(scheduler, "train", 5, 8) == []


async def test_a_pod_that_waits_keeps_its_place_when_those_that_never_come_give_theirs_back(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        await scheduler.job_comes("train", *FOUR_OF_EIGHT)
        for rank in range(3):
            await scheduler.schedule(asking, f"train-{rank}")
        await asyncio.sleep(UNSTATED_S + 3)
        state = asking.master.service.placements.state
        assert sum(state.capacity.used(NodeName(node)) for node in NODES) == 8
        await scheduler.schedule(asking, "train-3")
        assert scheduler.node_of("train-3")
        assert split_groups(scheduler, "train", 4, 8) == []


async def test_a_job_that_states_no_size_keeps_places_for_the_ranks_of_its_pods_alone(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    """For whole groups at first; then no longer for ranks below the highest that have no pod."""
    async with asked(server, tmp_path) as asking:
        for rank in (0, 1, 5):
            await scheduler.pod_comes(f"train-{rank}", 2, job="train", rank=rank, group=16)
        state, kept = asking.master.service.placements.state, []
        for wait_s in (UNSTATED_S - 3, 6):
            await asyncio.sleep(wait_s)
            kept.append(sum(state.capacity.used(NodeName(node)) for node in NODES))
        assert kept == [16, 6]


@pytest.mark.parametrize("first", [2, 8, 999_998])
async def test_a_later_wave_of_an_indexed_job_needs_room_for_its_own_pods_alone(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path, first: int
) -> None:
    """Ranks below have finished, and their number, which a tenant states, costs nothing."""
    names = [f"train-{first}", f"train-{first + 1}"]
    async with asked(server, tmp_path, "--ahead-share=1") as asking:
        for node in NODES:
            await scheduler.pod_comes(f"on-{node}", 8)
            scheduler.pods[f"on-{node}"]["spec"]["nodeName"] = node
            await scheduler._put(f"on-{node}")
        await asyncio.sleep(1)
        for at, name in enumerate(names):
            await scheduler.pod_comes(name, 8, job="train", rank=first + at, group=16)
        await asyncio.sleep(UNSTATED_S + 3)
        for node in NODES[:2]:
            await scheduler.pod_goes(f"on-{node}")
        await asyncio.sleep(2)
        state = asking.master.service.placements.state
        assert [dict(hold.places) for hold in state.holds()] == [dict.fromkeys(NODES[:2], 1)]
        await bind_all(asking, scheduler, tries=3)
        assert {scheduler.node_of(name) for name in names} == {*NODES[:2]}


@pytest.mark.parametrize(
    ("ranks", "group", "busy"),
    [((4, 5, 6, 7), 16, NODES[::2]), ((0, 1, 4, 5, 6, 7, 8, 9), 8, NODES[2:])],
    ids=["of the end of a group", "of several groups"],
)
async def test_a_group_of_which_pods_have_finished_needs_no_room_for_them(
    server: FakeServer,
    scheduler: Scheduler,
    tmp_path: Path,
    ranks: tuple[int, ...],
    group: int,
    busy: tuple[str, ...],
) -> None:
    async with asked(server, tmp_path, "--ahead-share=1") as asking:
        for node in busy:
            await scheduler.pod_comes(f"on-{node}", 8)
            scheduler.pods[f"on-{node}"]["spec"]["nodeName"] = node
            await scheduler._put(f"on-{node}")
        await asyncio.sleep(1)
        for rank in ranks:
            await scheduler.pod_comes(f"train-{rank}", 2, job="train", rank=rank, group=group)
        await bind_all(asking, scheduler, tries=12)
        assert not scheduler.waiting()
        assert split_groups(scheduler, "train", 10, group // 2) == []
