"""Native jobs that real Kueue stops and starts elsewhere, while old pods of theirs still end.

`make e2e-kinds` starts the other kinds again, where they were.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.jobkinds.kinds import KINDS, Kind, example
from tests.e2e.jobkinds.life import QUEUES, Life
from tests.e2e.kueue.queues import is_published, open_wide_queue
from tests.e2e.scheduling.admission_master import AdmissionMaster
from tests.e2e.scheduling.jobs import NODES
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

NATIVE = "kueue-native"
ALL_GPUS, IN_JOB = 128, 6
"""A job of twelve pods leaves four nodes."""


def small_job_set() -> Any:
    """Two Jobs of six pods beside the driver."""
    job = example("jobset")
    job["spec"]["replicatedJobs"][1]["template"]["spec"] |= dict.fromkeys(
        ("completions", "parallelism"), IN_JOB
    )
    return job


def rank_in_set(pod: Any) -> int:
    """The rank of a pod of a worker, as JobSet and the Job controller number it."""
    labels = pod["metadata"]["labels"]
    index = labels["batch.kubernetes.io/job-completion-index"]
    return IN_JOB * int(labels["jobset.sigs.k8s.io/job-index"]) + int(index)


def small_stateful_set() -> Any:
    """Twelve pods."""
    job = example("statefulset")
    job["spec"]["replicas"] = 2 * IN_JOB
    return job


@pytest.mark.parametrize(
    "kind",
    [
        replace(KINDS["jobset"], job=small_job_set, rank=rank_in_set),
        replace(KINDS["statefulset"], job=small_stateful_set),
    ],
    ids=lambda each: str(each.name),
)
async def test_a_native_job_that_starts_again_elsewhere_is_whole_while_old_pods_end(
    api: Api, master: AdmissionMaster, world: World, kind: Kind
) -> None:
    """Kueue would give its nodes out in the order in which it finds the pods."""
    queue, flavor = QUEUES[NATIVE]
    await eventually(partial(is_published, api))
    await open_wide_queue(api, queue, flavor, ALL_GPUS)
    first = [str(each.name) for each in world.nodes[:2]]
    await _cordon(api, first, unschedulable=True)
    job = Life(api, world, kind, NATIVE, master.url)
    await job.make(2 * IN_JOB)
    await job.start_again_slowly(partial(_cordon, api, first, unschedulable=None))
    assert {*first} <= {each["spec"]["nodeName"] for each in await job.pods()}


async def _cordon(api: Api, nodes: Sequence[str], *, unschedulable: bool | None) -> None:
    for node in nodes:
        await api.merge(f"{NODES}/{node}", {"spec": {"unschedulable": unschedulable}})
