"""kube-scheduler without a webhook: pods of groups go where the group's nodes are kept."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.extender.model import NODES, Asking, Scheduler, asked, dragonfly, split_groups
from tests.kube.fake_server import FakeServer
from tests.support.kubernetes import node_status
from topo.model.ids import NodeName
from topo.placement.booking.holds import FORMAT, HoldsMemory

pytestmark = pytest.mark.virtual_time
Jobs = dict[str, tuple[int, int, int]]
"""Pods, GPUs of a pod and of a group, by job."""


async def bind_all(asking: Asking, scheduler: Scheduler, tries: int = 20) -> None:
    """Tries every waiting pod again and again, as a scheduler does."""
    for _ in range(tries):
        for name in scheduler.waiting():
            await scheduler.schedule(asking, name)
        if not scheduler.waiting():
            return
        await asyncio.sleep(1)


async def sizes_come(scheduler: Scheduler, *gpus: int) -> None:
    """A job comes whose pods ask for so many GPUs, and has its places after a while; one group."""
    for rank, number in enumerate(gpus):
        await scheduler.pod_comes(
            f"train-{rank}", number, job="train", rank=rank, group=8 * len(gpus)
        )
    await asyncio.sleep(5)


async def test_a_jobs_groups_are_whole_and_each_pod_is_on_the_node_of_its_rank(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        await scheduler.job_comes("train", 8, 4, 16)
        await bind_all(asking, scheduler)
        assert not scheduler.waiting()
        assert split_groups(scheduler, "train", 8, 4) == []
        for group in range(2):
            nodes = [scheduler.node_of(f"train-{group * 4 + at}") for at in range(4)]
            assert nodes == sorted(nodes), "two pods on each node, by rank"


async def test_pods_of_different_sizes_go_each_to_its_own_place(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    """A small pod has the whole place of a large one among its nodes, and may not take it."""
    async with asked(server, tmp_path) as asking:
        await sizes_come(scheduler, 8, 4)
        state = asking.master.service.placements.state
        (hold,) = state.holds()
        large, small = dict(sorted(hold.gpus.items(), key=lambda each: -each[1]))
        assert (hold.gpus[large], hold.gpus[small]) == (8, 4)
        assert state.capacity.free(small) == 4
        found = await scheduler.schedule(asking, "train-1")
        assert found["NodeNames"] == [small]
        found = await scheduler.schedule(asking, "train-0")
        assert found["NodeNames"] == [large]


async def test_a_pod_that_is_made_again_larger_is_placed_again(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        await sizes_come(scheduler, 8, 4)
        await scheduler.pod_goes("train-1")
        await scheduler.pod_comes("train-1", 8, job="train", rank=1, group=16)
        await asyncio.sleep(3)
        await scheduler.schedule(asking, "train-1")
        await scheduler.schedule(asking, "train-0")
        assert split_groups(scheduler, "train", 2, 2) == []


async def test_a_large_pod_has_its_place_where_a_small_sibling_went_elsewhere(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    """What a pod takes elsewhere is given back of the last places, which may be larger."""
    async with asked(server, tmp_path) as asking:
        await sizes_come(scheduler, 8, 4, 4, 8)
        state = asking.master.service.placements.state
        idle = next(node for node in NODES if state.capacity.free(NodeName(node)) == 8)
        scheduler.pods["train-1"]["spec"]["nodeName"] = idle
        await scheduler._put("train-1")
        await asyncio.sleep(3)
        for rank in (0, 2, 3):
            await scheduler.schedule(asking, f"train-{rank}")
            assert scheduler.node_of(f"train-{rank}"), rank


async def test_a_bound_pod_has_its_share_of_a_hold_that_a_master_hears_of_later(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        await scheduler.job_comes("train", 2, 8, 16)
        await scheduler.schedule(asking, "train-0")
        await asyncio.sleep(1)
        state = asking.master.service.placements.state
        memory = state.persistent_state()
        port = asking.master.service.extender
        assert port is not None
        counted, port.plans._is_counted = port.plans._is_counted, lambda: False  # books nothing
        state.replicate(HoldsMemory(FORMAT, ()))
        await server.delete("pods", "train-0", "jobs")
        await asyncio.sleep(0.2)
        await scheduler._put("train-0")  # so that it is counted anew
        await asyncio.sleep(0.5)
        assert not state.holds()
        state.replicate(memory)
        port.plans._is_counted = counted
        assert sum(state.capacity.used(NodeName(node)) for node in NODES) == 16
        found = await scheduler.schedule(asking, "train-1")
        assert len(found["NodeNames"]) == 1
        assert split_groups(scheduler, "train", 2, 2) == []


async def test_a_hold_that_comes_or_ends_is_asked_about_only_for_the_pods_of_its_ranks(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    """A gang may have a thousand holds, and a follower takes them all in one step."""
    async with asked(server, tmp_path) as asking:
        await scheduler.job_comes("train", 8, 4, 16)
        await asyncio.sleep(5)
        port = asking.master.service.extender
        assert port is not None
        holds = asking.master.service.placements.state.holds()
        taken = {hold.id: {name for _, name in port.plans.takers(hold)} for hold in holds}
        groups = [{f"train-{group * 4 + at}" for at in range(4)} for group in range(2)]
        assert sorted(taken.values(), key=sorted) == groups
        await scheduler.pod_goes("train-0")
        await asyncio.sleep(0.5)
        holds = asking.master.service.placements.state.holds()
        left = [name for hold in holds for _, name in port.plans.takers(hold)]
        assert sorted(left) == [f"train-{rank}" for rank in range(1, 8)]
        known = port.plans._pods.objects
        for hold in holds:
            assert {port.plans.hold_of(known[key]) for key in port.plans.takers(hold)} == {hold.id}


async def test_a_pod_of_somebody_else_gets_no_gpu_that_is_held_for_a_group(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        for fly in range(3):  # one dragonfly is left
            await scheduler.pod_comes(f"one-{fly}", 8)
            await scheduler.schedule(asking, f"one-{fly}")
        await asyncio.sleep(1)
        free = {dragonfly(node) for node in _idle(scheduler)}
        await scheduler.job_comes("train", 2, 8, 16)
        await scheduler.schedule(asking, "train-0")
        kept = dragonfly(scheduler.node_of("train-0"))
        assert kept in free
        await scheduler.pod_comes("late", 8)
        found = await scheduler.schedule(asking, "late")
        assert all(dragonfly(node) != kept for node in found["NodeNames"] or [])
        await scheduler.schedule(asking, "train-1")
        assert split_groups(scheduler, "train", 2, 2) == []
        assert scheduler.node_of("train-1")


def _idle(scheduler: Scheduler) -> list[str]:
    return [node for node in NODES if node not in scheduler.used()]


async def test_a_group_without_room_is_refused_with_the_reason_and_bound_when_there_is_room(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        for at, fly in enumerate(("n0-0", "n0-1", "n1-0", "n1-1")):
            await scheduler.pod_comes(f"half-{at}", 8)
            scheduler.pods[f"half-{at}"]["spec"]["nodeName"] = f"{fly}-0"
            await scheduler._put(f"half-{at}")
        await asyncio.sleep(1)
        await scheduler.job_comes("train", 2, 8, 16)
        found = await scheduler.schedule(asking, "train-0")
        assert not found["NodeNames"]
        assert not found["Error"]
        assert all(why.startswith("topo: ") for why in found["FailedNodes"].values())
        await scheduler.pod_goes("half-2")
        for number in range(20):  # the cluster never has a second without an event of a pod
            await scheduler.pod_comes(f"other-{number}", 0)
            await asyncio.sleep(0.5)
            for name in ("train-0", "train-1"):
                if not scheduler.node_of(name):
                    await scheduler.schedule(asking, name)
        assert {dragonfly(scheduler.node_of(f"train-{rank}")) for rank in (0, 1)} == {"n1-0"}


async def test_a_pod_that_is_lost_comes_back_beside_its_group(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        await scheduler.job_comes("train", 4, 8, 16)
        await bind_all(asking, scheduler)
        before = scheduler.node_of("train-2")
        await asyncio.sleep(1)
        await scheduler.pod_goes("train-2")
        await scheduler.pod_comes("train-2", 8, job="train", rank=2, group=16)
        await bind_all(asking, scheduler)
        assert scheduler.node_of("train-2") == before
        state = asking.master.service.placements.state
        await asyncio.sleep(2)
        assert state.holds() == []


async def test_the_size_that_a_template_states_places_the_whole_job_at_once(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    stamp = {
        "metax-tech.com/gang-pods": "4",
        "metax-tech.com/gang-rank-offset": "0",
        "metax-tech.com/gang-pods-per-group": "2",
    }
    async with asked(server, tmp_path, "--ahead-share=1") as asking:
        await scheduler.pod_comes("train-0", 8, job="train", rank=0, group=16, **stamp)
        await scheduler.schedule(asking, "train-0")
        await asyncio.sleep(1)
        holds = asking.master.service.placements.state.holds()
        assert sum(hold.wish.request.pods for hold in holds) == 4
        boxes = {node.split("-")[0] for hold in holds for g in hold.groups for node, _ in g.pods}
        assert len(boxes) == 1, "both groups below one switchbox"


async def test_a_job_that_states_a_million_pods_is_placed_group_by_group(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    stamp = {
        "metax-tech.com/gang-pods": "1000000",
        "metax-tech.com/gang-rank-offset": "0",
        "metax-tech.com/gang-pods-per-group": "2",
    }
    async with asked(server, tmp_path) as asking:
        await scheduler.pod_comes("train-0", 8, job="train", rank=0, group=16, **stamp)
        await scheduler.schedule(asking, "train-0")
        (hold,) = asking.master.service.placements.state.holds()
        assert hold.wish.request.pods == 2


async def test_a_job_that_is_deleted_keeps_nothing(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        await scheduler.job_comes("gone", 2, 8, 16)
        await scheduler.schedule(asking, "gone-0")
        for rank in range(2):
            await scheduler.pod_goes(f"gone-{rank}")
        await asyncio.sleep(2)
        assert asking.master.service.placements.state.holds() == []


@pytest.mark.parametrize("rank", [0, 1, 900000])
@pytest.mark.parametrize("asked_first", [False, True])
async def test_a_pod_of_another_namespace_that_names_the_job_changes_nothing_for_its_groups(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path, rank: int, *, asked_first: bool
) -> None:
    """The next pod goes to the node of its rank, and no other one passes its filter."""
    async with asked(server, tmp_path) as asking:
        if not asked_first:
            await scheduler.stranger_comes("stranger", "train", rank)
            await asyncio.sleep(1)
        await scheduler.job_comes("train", 4, 8, 16)
        await scheduler.schedule(asking, "train-0")
        await asyncio.sleep(1)
        if asked_first:
            await scheduler.stranger_comes("stranger", "train", rank)
            await asyncio.sleep(1)
        found = await scheduler.schedule(asking, "train-1")
        assert {*map(dragonfly, found["NodeNames"])} == {dragonfly(scheduler.node_of("train-0"))}
        assert len(found["NodeNames"]) == 1
        await bind_all(asking, scheduler)
        assert not scheduler.waiting()
        assert split_groups(scheduler, "train", 4, 2) == []


async def test_a_question_about_a_pod_that_the_api_server_does_not_have_changes_nothing(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    async with asked(server, tmp_path) as asking:
        state = asking.master.service.placements.state
        await scheduler.job_comes("train", 2, 8, 16)
        pod = scheduler.pods.pop("train-1")
        await server.delete("pods", "train-1", "jobs")
        await asyncio.sleep(1)
        before = state.version, state.header()
        metadata = {**pod["metadata"], "name": "train-1", "namespace": "jobs", "uid": "made-up"}
        found = await asking.ask("filter", {"Pod": {**pod, "metadata": metadata}, "NodeNames": []})
        assert "does not know the pod" in found["Error"]
        assert (state.version, state.header()) == before


async def anything(rng: random.Random, scheduler: Scheduler, jobs: Jobs, step: int) -> None:
    """A job comes or ends, a pod of its own comes, one is lost, or nothing happens."""
    act = rng.choice(["job", "job", "single", "lose", "end", "rest"])
    if act == "job":
        gpus, group = rng.choice([(8, 16), (4, 16), (4, 8), (2, 16), (8, 32)])
        pods = group // gpus * rng.randint(1, 2)
        jobs[f"job{step}"] = pods, gpus, group
        await scheduler.job_comes(f"job{step}", pods, gpus, group)
    elif act == "single":
        await scheduler.pod_comes(f"single{step}", rng.choice([1, 4, 8]))
    elif act == "lose" and scheduler.pods:
        await scheduler.pod_goes(rng.choice(sorted(scheduler.pods)))
    elif act == "end" and jobs:
        job = rng.choice(sorted(jobs))
        del jobs[job]
        for name in [each for each in scheduler.pods if each.startswith(f"{job}-")]:
            await scheduler.pod_goes(name)


@pytest.mark.parametrize("seed", range(2))
async def test_no_group_is_split_and_no_gpu_given_twice_whatever_comes_and_goes(
    seed: int, server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    rng = random.Random(seed)  # noqa: S311 - the same each time
    jobs: Jobs = {}
    async with asked(server, tmp_path) as asking:
        for step in range(30):
            await anything(rng, scheduler, jobs, step)
            waiting = scheduler.waiting()
            for name in rng.sample(waiting, min(len(waiting), 12)):
                await scheduler.schedule(asking, name)
            assert max(scheduler.used().values(), default=0) <= 8
            for job, (pods, gpus, group) in jobs.items():
                assert group > 16 or not split_groups(scheduler, job, pods, group // gpus), job
            await asyncio.sleep(rng.choice([0, 0.1, 2]))
        assert len(scheduler.used()) > 2, "pods were bound"
        await books_what_runs(asking, scheduler)


async def books_what_runs(asking: Asking, scheduler: Scheduler) -> None:
    """Once what is held has come to its time, the bookings are the pods and what still waits."""
    state = asking.master.service.placements.state
    state._bookings.validate()
    await asyncio.sleep(130)
    held = {node for hold in state.holds() for g in hold.groups for node, _ in g.pods}
    for node, count in scheduler.used().items():
        assert node in held or state.capacity.used(NodeName(node)) == count


async def test_the_cpus_of_a_place_that_is_kept_are_not_there_for_the_next_group(
    server: FakeServer, scheduler: Scheduler, tmp_path: Path
) -> None:
    """Two pods of 4 GPUs and 40 CPUs on a node of 64: one. Of the first group nobody runs yet."""
    for name in NODES:
        await server.put("nodes", name, metadata={}, spec={}, status=node_status(cpu="64"))
    async with asked(server, tmp_path) as asking:
        state = asking.master.service.placements.state
        for ranks, groups in (((0, 1), 1), ((2, 3), 2)):
            for rank in ranks:
                pod = scheduler._made(4, "train", rank, 8, {})
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "40"
                scheduler.pods[f"train-{rank}"] = pod
                await scheduler._put(f"train-{rank}")
            await asyncio.sleep(5)
            assert len(state.holds()) == groups
        nodes = [node for hold in state.holds() for node in hold.places.elements()]
        assert len(nodes) == len({*nodes}) == 4


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("is_kept", [False, True])
async def test_no_group_is_split_and_no_gpu_given_twice_where_masters_end_between_any_two_steps(
    seed: int, server: FakeServer, scheduler: Scheduler, tmp_path: Path, *, is_kept: bool
) -> None:
    """`is_kept`: the next master has what the one before kept; else it knows what pods say."""
    rng = random.Random(seed)  # noqa: S311 - the same each time
    jobs: Jobs = {}
    taken = set[str]()
    flags = (f"--state-file={tmp_path / 'kept' / 'state.json'}",) if is_kept else ()
    for life in range(6):
        async with asked(server, tmp_path, *flags) as asking:
            for step in range(rng.randint(1, 8)):
                await anything(rng, scheduler, jobs, 10 * life + step)
                waiting = scheduler.waiting()
                for name in rng.sample(waiting, min(len(waiting), 12)):
                    await scheduler.schedule(asking, name)
                taken.update(scheduler.used())
                assert max(scheduler.used().values(), default=0) <= 8
                for job, (pods, gpus, group) in jobs.items():
                    assert group > 16 or not split_groups(scheduler, job, pods, group // gpus), job
                await asyncio.sleep(rng.choice([0, 0.1, 2]))
    async with asked(server, tmp_path, *flags) as asking:
        await bind_all(asking, scheduler, tries=3)
        assert len(taken) > 2, "pods were bound"
        await books_what_runs(asking, scheduler)
