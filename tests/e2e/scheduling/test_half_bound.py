"""A gang on kube-scheduler of which half runs is placed anew by the commands of the page."""

import asyncio
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.gang_master import GangMaster
from tests.e2e.scheduling.jobs import (
    BATCH_JOBS,
    NODES,
    PODS,
    are_whole,
    bound,
    events_of,
    pods_of,
    template,
)
from tests.support.waiting import eventually
from topo.gangs.stamp import Stamp
from topo.sim.worlds.presets import World

PAGE = Path(__file__).parents[3] / "docs" / "how-placement-reaches-the-scheduler.md"
JOB = "halved"


def stamped_job() -> Any:
    """A pair as the webhook leaves it, of which a pod may fail."""
    job = asking.batch_job(JOB, 2)
    job["spec"] |= {"template": template(Stamp(2, 0, 2), 16), "backoffLimit": 3}
    return job


def commands() -> str:
    """What the page says to run."""
    section = PAGE.read_text().split("\n## A gang that is half bound\n")[1]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1].replace("NAME", JOB)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
async def test_a_gang_that_is_half_bound_is_placed_whole_by_what_the_page_says(
    cluster: Cluster, api: Api, master: GangMaster, world: World
) -> None:
    async def is_told() -> bool:
        return "GangHalfBound" in await events_of(api, JOB)

    await api.create(BATCH_JOBS, stamped_job())
    await eventually(lambda: bound(api, JOB, 2))
    stays, goes = await pods_of(api, JOB)
    await api.merge(f"{NODES}/{goes.node}", {"spec": {"unschedulable": True}})
    await api.delete(f"{PODS}/{goes.name}", grace_s=0)
    await eventually(is_told)
    failed = (await api.get(f"{BATCH_JOBS}/{JOB}"))["status"].get("failed", 0)

    environment = {**os.environ, "KUBECONFIG": str(cluster.files.kubeconfig)}
    shell = await asyncio.create_subprocess_exec("sh", "-euc", commands(), env=environment)
    assert await shell.wait() == 0
    await eventually(lambda: bound(api, JOB, 2))
    nodes = [each.node for each in await pods_of(api, JOB)]
    assert are_whole(world, "dragonfly", nodes, 2)
    assert not {stays.node, goes.node} & {*nodes}
    assert (await api.get(f"{BATCH_JOBS}/{JOB}"))["status"].get("failed", 0) == failed
    master.program.must_live()
