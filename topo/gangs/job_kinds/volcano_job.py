"""Reader of a Volcano Job: its tasks in the order of ranks.

Source: `volcano.sh/apis/pkg/apis/batch/v1alpha1/job.go` of v1.14.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from topo.gangs.annotation_keys import TASK_INDEX
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.templates import JobParts, Template, count
from topo.gangs.json_patch import add, mapping, sequence, text
from topo.model.errors import Refusal

MAX_TASKS = 1000
"""A job is judged while others wait: so many take some 20 ms, and more fit into one object."""
_MASTER = "master"
"""Volcano's pytorch plugin calls the task of rank 0 so, and takes another name as an argument.
Source: pkg/controllers/job/plugins/distributed-framework/pytorch."""
_MASTER_ARGUMENT = re.compile(r"--?master=(.+)")


def volcano_job(job: Mapping[str, Any]) -> JobParts:
    """Return the parts of a Volcano Job; O(tasks).

    Without `minAvailable` its pods would start one by one. So it is set to the sum of the tasks'
    own `minAvailable`, which is all pods where those are unset, too.
    """
    spec = mapping(job.get("spec"))
    stated = sequence(spec.get("tasks"))
    # Of a job with too many, which is refused, the first ones are where its annotations are.
    tasks = tuple(map(mapping, stated[:MAX_TASKS]))
    least = sum(count(task.get("minAvailable", task.get("replicas"))) for task in tasks)
    unset = least and not count(spec.get("minAvailable"))
    master = _master(spec)
    return JobParts(
        templates=tuple(sorted(_templates(tasks), key=lambda each: each.name != master)),
        own=_own_topology(spec, tasks),
        flaw=_too_many(len(stated)),
        more=(add(("spec", "minAvailable"), value=least),) if unset else (),
        has_pod_group=True,
    )


def _too_many(tasks: int) -> Refusal | None:
    if tasks <= MAX_TASKS:
        return None
    fix = f"give it at most {MAX_TASKS}; one task may have any number of pods"
    return Refusal(f"the job has {tasks} tasks", "spec.tasks", fix)


def _templates(tasks: tuple[Mapping[str, Any], ...]) -> Iterator[Template]:
    for number, task in enumerate(tasks):
        yield Template(
            path=("spec", "tasks", number, "template"),
            name=text(task.get("name"))[:63] or str(number),
            pods=count(task.get("replicas")),
            body=mapping(task.get("template")),
        )


def _master(spec: Mapping[str, Any]) -> str:
    arguments = sequence(mapping(spec.get("plugins")).get("pytorch"))
    named = (_MASTER_ARGUMENT.fullmatch(text(each)) for each in arguments)
    return next((found[1] for found in named if found), _MASTER)


def _own_topology(spec: Mapping[str, Any], tasks: tuple[Mapping[str, Any], ...]) -> str:
    """Return the field by which Volcano chooses nodes itself; a nomination would override it."""
    if mapping(spec.get("networkTopology")):
        return "spec.networkTopology is set"
    for number, task in enumerate(tasks):
        if mapping(task.get("partitionPolicy")):
            return f"spec.tasks[{number}].partitionPolicy is set"
    return ""


VOLCANO_JOB = JobKind(
    name="volcano-job",
    title="Volcano Job",
    group="batch.volcano.sh",
    version="v1alpha1",
    kind="Job",
    resource="jobs",
    index_key=TASK_INDEX,
    parts=volcano_job,
    keeps_failed_pods=True,
)
