"""What must hold when a part of it is away, slow or wrong, on real programs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.clock import wrong_by
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.admission_master import admission_master
from tests.e2e.scheduling.gang_master import (
    ACCOUNT,
    NAMESPACE,
    GangMaster,
    api_url,
    document,
    gang_master,
)
from tests.e2e.scheduling.jobs import (
    JOBS,
    PODS,
    WORDS,
    are_whole,
    bound,
    events_of,
    gang_labels,
    pods_of,
    taker,
    volcano_job,
)
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

DEATHS = (1, 4, 6, 9, 11)
"""After so many writes for one gang: while nodes are labelled, pods nominated, gates opened."""
AHEAD_S = 3600


def writes(cluster: Cluster) -> int:
    """How many objects masters have changed for gangs until now, Events aside."""
    asked = cluster.calls(f"{NAMESPACE}:{ACCOUNT}")
    return sum(call.verb == "patch" and call.resource != "events" for call in asked)


async def is_whole(api: Api, world: World, job: str, pods: int = 4) -> bool:
    """Whether each pod runs where it was planned, and each pair in one dragonfly."""
    if not await bound(api, job, pods):
        return False
    found = await pods_of(api, job)
    nodes = [each.node for each in found]
    assert nodes == [each.planned for each in found]
    return are_whole(world, "dragonfly", nodes, 2) and len(set(nodes)) == pods


async def test_a_gang_whose_leader_is_killed_five_times_in_its_course_ends_whole(
    cluster: Cluster, api: Api, master: GangMaster, world: World
) -> None:
    began = writes(cluster)
    await api.create(JOBS, volcano_job("hunted", 4, 16))
    for number in DEATHS:
        await eventually(lambda: writes(cluster) - began >= number)  # noqa: B023 - at once
        await master.kill()
        master.start()
    await eventually(lambda: is_whole(api, world, "hunted"))
    nodes = {each.node for each in await pods_of(api, "hunted")}

    async def are_labelled() -> bool:  # and no node of a plan that was given up
        return list((await gang_labels(api)).values()) == [nodes]

    await eventually(are_labelled)


async def test_a_job_that_came_while_no_master_was_there_is_placed_when_one_is_back(
    api: Api, master: GangMaster, world: World
) -> None:
    await master.kill()
    await api.create(JOBS, volcano_job("waited", 4, 16))

    async def has_its_pods() -> bool:
        return len(await pods_of(api, "waited")) == 4

    await eventually(has_its_pods)
    assert all(each.gated for each in await pods_of(api, "waited"))
    master.start()
    await eventually(lambda: is_whole(api, world, "waited"))


async def test_volcano_that_ends_and_comes_back_in_the_middle_binds_the_gang_where_it_was_planned(
    cluster: Cluster, api: Api, master: GangMaster, world: World
) -> None:
    controllers, scheduler, *_ = cluster.volcano
    began = writes(cluster)
    await api.create(JOBS, volcano_job("restarted", 4, 16))
    await eventually(lambda: writes(cluster) > began)
    for program in (scheduler, controllers):
        await asyncio.to_thread(program.stop, 0.0)
    for program in (controllers, scheduler):
        program.start()
    await eventually(lambda: is_whole(api, world, "restarted"))
    master.program.must_live()


async def test_a_gang_whose_pods_somebody_changes_all_the_time_is_placed(
    api: Api, master: GangMaster, world: World
) -> None:
    async with _changed_all_the_time(api, "disturbed"):
        await api.create(JOBS, volcano_job("disturbed", 4, 16))
        await eventually(lambda: is_whole(api, world, "disturbed"))
    master.program.must_live()


@asynccontextmanager
async def _changed_all_the_time(api: Api, job: str) -> AsyncIterator[None]:
    async def change() -> None:
        number = 0
        while True:
            for pod in await pods_of(api, job):
                number += 1
                patch = {"metadata": {"annotations": {"example.com/seen": str(number)}}}
                await api.merge(f"{PODS}/{pod.name}", patch)
            await asyncio.sleep(0.01)

    task = asyncio.create_task(change())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_master_whose_clock_is_an_hour_ahead_ends_no_wait_for_whole_groups_too_early(
    api: Api, master: GangMaster, world: World, tmp_path: Path
) -> None:
    """A node of each dragonfly is taken: after its wait, and not before, a pair may be split."""
    await master.kill()
    wrong = wrong_by(AHEAD_S, tmp_path / "clock")
    master.program.environment = {**master.program.environment, **wrong}
    master.start()
    for node in {str(host.dragonfly): str(host.name) for host in world.nodes}.values():
        await api.create(PODS, taker(f"taker-{node}", node))

    async def is_told() -> bool:
        return "GangDoesNotFit" in await events_of(api, "patient")

    job = volcano_job("patient", 4, 16)
    for task in job["spec"]["tasks"]:
        task["template"]["metadata"]["annotations"][WORDS.wait] = "10m"
    await api.create(JOBS, job)
    await eventually(is_told)
    assert all(each.gated for each in await pods_of(api, "patient"))


async def test_jobs_run_while_the_webhook_is_away_and_it_is_said_and_counted_afterwards(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    async def is_told() -> bool:
        return "GangPassedBy" in await events_of(api, "unseen")

    async with admission_master(cluster, api, tmp_path) as master:
        (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
        await asyncio.to_thread(master.program.stop, 0.0)
        await api.create(JOBS, asking.volcano_job("unseen", 4, 16))  # its master names the size
        await eventually(lambda: bound(api, "unseen", 4))
        assert not any(each.planned for each in await pods_of(api, "unseen"))
        master.program.start()
        await eventually(is_told)

        async def is_counted() -> bool:
            url = f"{api_url(master.program)}/metrics"
            async with ClientSession() as session, session.get(url) as answer:
                return "\ntopo_master_gang_pods_slipped_total 1.0\n" in await answer.text()

        await eventually(is_counted)


async def test_a_master_that_never_knows_its_tree_leaves_the_jobs_to_their_schedulers(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    """No worker reports in mode dragonfly: there is nothing to place by, and no end of it."""

    async def is_told() -> bool:
        return "--gate-timeout" in (await events_of(api, "left")).get("GangNotPlaced", "")

    flags = ("--mode=dragonfly", "--gate-timeout=3s")
    async with gang_master(cluster, world, tmp_path, *flags):
        await api.create(JOBS, volcano_job("left", 4, 16))
        await eventually(lambda: bound(api, "left", 4))
        await eventually(is_told)
        assert await gang_labels(api) == {}
