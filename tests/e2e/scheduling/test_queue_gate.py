"""A gang whose pods Volcano itself gates, too, until their queue has room: our gate goes first.

Volcano takes its gate off a pod only when no other gate is left (1.15, alpha): if each of both
waited for the other, no such gang would ever start.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling.jobs import JOBS, are_as_planned, bound, pods_of, volcano_job
from tests.e2e.scheduling.scheduler_config import configure
from tests.support.waiting import eventually

GATE = "scheduling.volcano.sh/queue-allocation-gate"


@pytest.fixture
async def queue_gates(cluster: Cluster, scheduler_file: Path) -> AsyncIterator[None]:
    """Volcano's scheduler with that feature, which its plugin `capacity` needs."""
    configure(scheduler_file, scheduler_file.read_text().replace("proportion", "capacity"))
    _, scheduler, _ = cluster.volcano
    argv = scheduler.argv
    scheduler.stop()
    scheduler.argv = (*argv, "--feature-gates=SchedulingGatesQueueAdmission=true")
    scheduler.start()
    yield
    scheduler.stop()
    scheduler.argv = argv
    scheduler.start()


@pytest.mark.usefixtures("master", "queue_gates")
async def test_a_gang_that_volcano_gates_for_its_queue_starts_as_planned(api: Api) -> None:
    job = volcano_job("doubly", 4, 16)
    for task in job["spec"]["tasks"]:
        task["template"]["metadata"]["annotations"][GATE] = "true"
        task["template"]["spec"]["schedulingGates"].append({"name": GATE})
    await api.create(JOBS, job)
    await eventually(lambda: bound(api, "doubly", 4))
    assert are_as_planned(await pods_of(api, "doubly"), 2)
