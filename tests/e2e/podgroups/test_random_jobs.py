"""Jobs at random with PodGroups of Kubernetes: what must hold at every moment."""

from pathlib import Path

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling.random_jobs import RandomRun, wishes
from tests.e2e.scheduling.stream import KUBE_PODGROUP
from topo.sim.worlds.presets import World

AWAY_S = 2.0
"""`make e2e-random SCHEDULER=kube-podgroup` has no master for 60 s."""
JOBS = 8


async def test_no_group_is_split_no_gpu_taken_twice_and_every_reason_true(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    some = list(wishes(7, JOBS, len(world.nodes)))
    run = RandomRun(
        cluster=cluster, api=api, world=world, home=tmp_path, jobs=some, scheduler=KUBE_PODGROUP
    )
    course, optima = await run.with_one_master(AWAY_S)
    assert course.bound == JOBS
    assert optima.oracle.plans == optima.alone + optima.behind
