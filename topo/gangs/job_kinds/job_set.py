"""Reader of a JobSet: its replicated jobs in their order, each repeated.

    replicated jobs driver (1 job of 1 pod without GPUs) and workers (2 jobs of 4 pods of 8 GPUs)
    → a gang of 8 pods; pod 3 of workers-1 has rank 1 · 4 + 3

Size: in the JobSet, completions x replicas of each replicated job. Identity: the label jobset-uid
with restart-attempt, since a restart makes all Jobs again while the old ones still end. Rank: the
index of the Job in its replicated job, and the completion index of the pod.

A replicated job that waits until another one is ready comes late; one that waits until another one
has ended never runs beside it. With `exclusive-topology` JobSet's own webhook refuses all pods but
the first of a Job until that is bound, and has them select its domain, in which an anti-affinity of
the first suffers no pod of another Job of any JobSet of its priority. Where `node-selector` is set
beside it, each Job selects nodes that its user labelled, and nothing comes late.

Source: sigs.k8s.io/jobset v0.12.0, api/jobset/v1alpha2, pkg/controllers, pkg/webhooks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from topo.gangs.annotation_keys import COMPLETION_INDEX
from topo.gangs.job_kinds.batch_job import index_flaw
from topo.gangs.job_kinds.job_kind import GangName, JobKind, PodFacts
from topo.gangs.job_kinds.templates import JobParts, Parts, Template, Wait, count, field_path
from topo.gangs.json_patch import Path, mapping, mappings, scalar_text, sequence, text
from topo.gangs.machine.gang import GangId, gang_of

NAME = "jobset"
_PREFIX = "jobset.sigs.k8s.io"
_EXCLUSIVE = f"alpha.{_PREFIX}/exclusive-topology"
_BY_SELECTOR = f"alpha.{_PREFIX}/node-selector"
MAX_JOBS = 1000
"""Replicated jobs of a JobSet that are read; an object of a megabyte has no more with GPUs."""


def job_set(found: Mapping[str, Any]) -> JobParts:
    """Return the parts of a JobSet; O(replicated jobs²) where each waits for those before it."""
    spec = mapping(found.get("spec"))
    jobs = tuple(map(mapping, sequence(spec.get("replicatedJobs"))[:MAX_JOBS]))
    order = mapping(spec.get("startupPolicy")).get("startupPolicyOrder")
    places = [("spec", "replicatedJobs", at, "template") for at in range(len(jobs))]
    labels = [_exclusive_label(found, mapping(job.get("template"))) for job in jobs]
    templates = tuple(_templates(jobs, labels, is_in_order=order == "InOrder"))
    return JobParts(
        templates=templates,
        stamped_kind=NAME,
        own_domains=tuple(map(_parts, templates, labels)) if any(labels) else (),
        places=tuple(
            (path, _annotations(mapping(job.get("template"))))
            for path, job in zip(places, jobs, strict=True)
        ),
    )


def _templates(
    jobs: Sequence[Mapping[str, Any]], labels: Sequence[str], *, is_in_order: bool
) -> Iterator[Template]:
    before: list[str] = []
    for at, (job, label) in enumerate(zip(jobs, labels, strict=True)):
        path: Path = ("spec", "replicatedJobs", at, "template", "spec")
        name = text(job.get("name"))[:63] or str(at)
        spec = mapping(mapping(job.get("template")).get("spec"))
        of_job = count(spec.get("completions", spec.get("parallelism", 1)))
        waits = _in_order(before) if is_in_order else _depends(job, at)
        if waits is None and label and of_job > 1:
            where = f"annotation {_EXCLUSIVE}"
            waits = Wait(frozenset({name}), until_ended=False, where=where, fix="remove it")
        indexed = {"completionMode": "Indexed", **spec, "completions": of_job}
        yield Template(
            path=(*path, "template"),
            name=name,
            pods=count(job.get("replicas", 1)) * of_job,
            body=mapping(spec.get("template")),
            pods_of_repeat=of_job,
            flaw=index_flaw(indexed, path),
            waits=waits,
        )
        before.append(name)


def _in_order(before: Sequence[str]) -> Wait | None:
    if not before:
        return None
    where = "spec.startupPolicy.startupPolicyOrder"
    return Wait(frozenset(before), until_ended=False, where=where, fix="set AnyOrder")


def _depends(job: Mapping[str, Any], at: int) -> Wait | None:
    """Return what a replicated job depends on; of several the end of one counts."""
    found = [mapping(each) for each in sequence(job.get("dependsOn"))]
    if not found:
        return None
    ends = [each for each in found if each.get("status") == "Complete"]
    return Wait(
        frozenset(text(each.get("name")) for each in ends or found),
        until_ended=bool(ends),
        where=field_path(("spec", "replicatedJobs", at, "dependsOn")),
        fix="remove it, or let the first one have no GPUs",
    )


def _exclusive_label(found: Mapping[str, Any], template: Mapping[str, Any]) -> str:
    """Return the label of which each Job of a template has a value for itself; empty for none.

    As `labelAndAnnotateObject` of JobSet: the template's own annotation counts before the JobSet's,
    and the one beside it counts with either.
    """
    stated = [each for each in map(_annotations, (template, found)) if _EXCLUSIVE in each]
    if not stated or any(_BY_SELECTOR in each for each in stated):
        return ""
    return text(stated[0][_EXCLUSIVE])


def _parts(template: Template, label: str) -> Parts:
    times = template.pods // max(1, template.pods_of_repeat)
    return Parts(times, label, ((template.name, template.pods_of_repeat),))


def _annotations(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(found.get("metadata")).get("annotations"))


def _gang(pod: PodFacts) -> GangName | None:
    uid, name = (pod.labels.get(f"{_PREFIX}/{key}", "") for key in ("jobset-uid", "jobset-name"))
    if not uid or not name:
        return None
    attempt = pod.labels.get(f"{_PREFIX}/restart-attempt", "0")
    return GangName(gang_of(NAME, pod.namespace, uid, attempt), name)


def _gang_of_job(found: Mapping[str, Any]) -> GangId:
    metadata, status = mappings(found, "metadata", "status")
    namespace, uid = (text(metadata.get(key)) for key in ("namespace", "uid"))
    return gang_of(NAME, namespace, uid, scalar_text(status.get("restarts", 0)))


JOB_SET = JobKind(
    name=NAME,
    title="JobSet",
    group="jobset.x-k8s.io",
    version="v1alpha2",
    kind="JobSet",
    resource="jobsets",
    index_key=COMPLETION_INDEX,
    repeat_key=f"{_PREFIX}/job-index",
    part_keys=(f"{_PREFIX}/job-key",),
    part_scope=f"{_PREFIX}/priority",
    parts=job_set,
    gang=_gang,
    suspended_at=("spec", "suspend"),
    size_key="",
    gang_of_job=_gang_of_job,
)
