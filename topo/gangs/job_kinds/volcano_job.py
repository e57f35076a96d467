"""Reader of a Volcano Job: its tasks in the order of ranks.

A task with `dependsOn` gets its pods once so many of each named task, its `minAvailable`, run and
are ready (of one of them with `iteration: any`), so they come late. Volcano starts no job whose
pods are fewer than its `minAvailable`: that may count only tasks that wait for no other.

    tasks worker (7) and master (1), which depends on worker; minAvailable 8 → refused: at most 7

Sources: `volcano.sh/apis/pkg/apis/batch/v1alpha1/job.go` of v1.14, `waitDependsOnTaskMeetCondition`
of pkg/controllers/job/job_controller_actions.go, `jobValidFn` of pkg/scheduler/plugins/gang.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from topo.gangs.annotation_keys import TASK_INDEX
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.templates import JobParts, Template, Wait, count, field_path
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

    Without `minAvailable` its pods would start one by one. So it is set to the sum of the own
    `minAvailable` of the tasks that wait for no other, which is all of their pods where those are
    unset, too.
    """
    spec = mapping(job.get("spec"))
    stated = sequence(spec.get("tasks"))
    # Of a job with too many, which is refused, the first ones are where its annotations are.
    tasks = tuple(map(mapping, stated[:MAX_TASKS]))
    templates = tuple(_templates(tasks))
    firsts = [task for task, each in zip(tasks, templates, strict=True) if each.waits is None]
    least = sum(_least(task) for task in firsts)
    unset = least and not count(spec.get("minAvailable"))
    master = _master(spec)
    return JobParts(
        templates=tuple(sorted(templates, key=lambda each: each.name != master)),
        own=_own_topology(spec, tasks),
        flaw=_too_many(len(stated)) or _never_valid(spec, templates),
        more=(add(("spec", "minAvailable"), value=least),) if unset else (),
        has_pod_group=True,
    )


def _too_many(tasks: int) -> Refusal | None:
    if tasks <= MAX_TASKS:
        return None
    fix = f"give it at most {MAX_TASKS}; one task may have any number of pods"
    return Refusal(f"the job has {tasks} tasks", "spec.tasks", fix)


def _least(task: Mapping[str, Any]) -> int:
    """Return how many pods of a task start together."""
    return count(task.get("minAvailable", task.get("replicas")))


def _never_valid(spec: Mapping[str, Any], templates: Sequence[Template]) -> Refusal | None:
    """Return why Volcano starts none of its pods: it waits for more than are made at first."""
    least = count(spec.get("minAvailable"))
    first = sum(each.pods for each in templates if each.waits is None)
    if not first or least <= first or all(each.waits is None for each in templates):
        return None
    what = f"minAvailable is {least}, and {first} pods are made before those that depend on others"
    return Refusal(what, "spec.minAvailable", f"give at most {first}, or remove dependsOn")


def _waits(
    task: Mapping[str, Any], number: int, tasks: Mapping[str, Mapping[str, Any]]
) -> Wait | None:
    """Return the tasks that one depends on; those of which no pod has to run are none."""
    stated = map(text, sequence(mapping(task.get("dependsOn")).get("name")))
    names = frozenset(name for name in stated if _least(tasks.get(name, {})))
    if not names:
        return None
    where = field_path(("spec", "tasks", number, "dependsOn"))
    return Wait(names, until_ended=False, where=where, fix="remove it")


def _templates(tasks: tuple[Mapping[str, Any], ...]) -> Iterator[Template]:
    by_name = {text(task.get("name")): task for task in tasks}
    for number, task in enumerate(tasks):
        yield Template(
            path=("spec", "tasks", number, "template"),
            name=text(task.get("name"))[:63] or str(number),
            pods=count(task.get("replicas")),
            body=mapping(task.get("template")),
            waits=_waits(task, number, by_name),
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
