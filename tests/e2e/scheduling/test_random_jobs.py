"""Jobs at random on real schedulers: what must hold at every moment, judged by a second client."""

from pathlib import Path

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling.random_jobs import RandomRun, wishes
from topo.sim.worlds.presets import World

AWAY_S = 2.0
"""`make e2e-random` has no master for 60 s."""

KILLS = 4


@pytest.mark.parametrize(("scheduler", "jobs"), [("volcano", 15), ("kube", 8)])
async def test_no_group_is_split_no_gpu_taken_twice_every_reason_true_and_every_plan_the_best(
    cluster: Cluster, api: Api, world: World, tmp_path: Path, scheduler: str, jobs: int
) -> None:
    some = list(wishes(7, jobs, len(world.nodes)))
    run = RandomRun(
        cluster=cluster, api=api, world=world, home=tmp_path, jobs=some, scheduler=scheduler
    )
    course, optima = await run.with_one_master(AWAY_S)
    assert course.bound == jobs + course.restarted
    assert course.while_away > 0
    assert optima.alone > 0
    assert optima.oracle.plans == optima.alone + optima.behind


async def test_no_group_is_split_while_the_leader_is_killed_as_jobs_arrive(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    """`make e2e-random KILLS=1` has 200 jobs."""
    some = list(wishes(7, KILLS, len(world.nodes)))
    run = RandomRun(cluster=cluster, api=api, world=world, home=tmp_path, jobs=some)
    course, masters = await run.under_kills()
    assert course.bound == KILLS + course.restarted
    assert masters.kills > 0
