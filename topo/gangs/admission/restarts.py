"""A native job that Kueue starts again, or that gets another size: refused where it would be split.

    a batch Job or JobSet whose old pods still end  → not started before they are gone
    a StatefulSet, which has nothing to start       → none of its new pods is admitted before that
    a PyTorchJob of slices of 2 pods that gets 13   → refused: 12 or 14
    an MPIJob that runs and gets fewer workers      → refused, with how to stop it first

Kueue stops a job that is preempted or scaled and starts it again, maybe while its old pods still
end. If one of these has another node than its index has now, or an index beyond the new size, Kueue
(0.19.2) ignores all ranks and gives out nodes in the order in which it finds the pods. So none of
them may be left when it starts: Kueue tries again until then. The controller of MPIJobs deletes the
pods of a stopped job up to its size alone; those beyond it would be left for ever. Kueue ignores
the ranks as well where the number is not whole slices.

A StatefulSet and a group of a LeaderWorkerSet are stopped by the deletion of their pods. There
Kueue's change that admits a pod is refused while others of its Workload end and none runs. By that
change the pod gets its Workload, and Kueue gives nodes only to pods that have one: whenever it does
so, the same stream of events has told it before that the old pods are gone. To refuse the later
change that gives a pod its node would be too late: Kueue may have chosen it beside old pods. While
a pod of the Workload runs, Kueue admits each pod at once that replaces a lost one: the lost one may
be on a dead node, where it ends only once somebody removes the node.

The subresource `scale` says only which job it is of, so that only pods tell.

Sources: Kueue v0.19.2, `Reconcile` and `readRanksIfAvailable` of
pkg/controller/tas/topology_ungater.go, `startJob` of pkg/controller/jobframework/reconciler.go,
`prepare` of pkg/controller/jobs/pod/pod_controller.go; `deleteWorkerPods` of mpi-operator v0.7.0,
pkg/controller/mpi_job_controller.go.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.admission.kueue_slices import SLICE_LEVEL, SLICE_SIZE, whole
from topo.gangs.admission.outcome import UNCHANGED, UNDECIDED, AdmissionOutcome, Result, Rules
from topo.gangs.annotation_keys import KUEUE_WORKLOAD
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.templates import Template, field_path
from topo.gangs.job_ranks import gang_of_job
from topo.gangs.json_patch import mapping, mappings, member_at, sequence, text
from topo.gangs.stamp import read_number
from topo.model.errors import Refusal

_ADMISSION_GATE = "kueue.x-k8s.io/admission"
"""The gate of a pod that Kueue has not admitted; by the change that opens it the pod gets its
Workload. Source: `SchedulingGateName` of pkg/controller/jobs/pod/constants."""
_BESIDE = "Kueue may split the groups of a job that starts while its old pods still end"


def judge_change(
    before: Mapping[str, Any], job: Mapping[str, Any], kind: JobKind, rules: Rules
) -> AdmissionOutcome | None:
    """Return why a job may not be changed so now; None where it may. O(templates)."""
    sizes = {each.name: each.pods for each in kind.parts(before).templates}
    was_stopped, is_stopped = _is_stopped(before, kind), _is_stopped(job, kind)
    starts = was_stopped and not is_stopped
    group = rules.native_group(gang_of_job(before, kind))
    for each in kind.parts(job).templates:
        was = sizes.get(each.name, 0)
        if not _is_sliced(each, kind, rules) or not each.pods or (each.pods == was and not starts):
            continue
        where = field_path((*each.path[:-1], kind.size_key))
        size = read_number(each.annotations.get(SLICE_SIZE)) or 1
        if kind.size_key and (odd := _odd(each.pods, size, where)) is not None:
            return odd
        if starts:
            return _beside_old_pods(kind, group)
        if kind.leaves_pods_beyond and each.pods < was:
            return _leaving_pods(before, where, group if was_stopped else 1)
    return None


def judge_scale(
    before: Mapping[str, Any], kind: JobKind, scale: Mapping[str, Any], rules: Rules
) -> AdmissionOutcome:
    """Return the outcome for the subresource `scale` of a job of a kind; O(1)."""
    was, pods = (mapping(each.get("spec")).get("replicas") for each in (before, scale))
    size = rules.native_group(gang_of_job(before, kind))
    if not isinstance(pods, int) or pods == was:
        return UNCHANGED
    if size is None:
        return UNDECIDED
    return _odd(pods, size or 1, "spec.replicas") or UNCHANGED


def judge_opening(
    before: Mapping[str, Any], pod: Mapping[str, Any], rules: Rules
) -> AdmissionOutcome:
    """Return the outcome for a pod that Kueue admits; O(pods of its Workload)."""
    if not _is_gated(before) or _is_gated(pod):
        return UNCHANGED
    (metadata,) = mappings(pod, "metadata")
    workload = text(mapping(metadata.get("annotations")).get(KUEUE_WORKLOAD))
    is_old = rules.has_old_pods(text(metadata.get("namespace")), workload)
    if is_old is None:
        return UNDECIDED
    fix = "Kueue admits this one once they are gone"
    return _denied(_BESIDE, "spec.schedulingGates", fix) if is_old else UNCHANGED


def _is_gated(pod: Mapping[str, Any]) -> bool:
    gates = sequence(mapping(pod.get("spec")).get("schedulingGates"))
    return _ADMISSION_GATE in (mapping(each).get("name") for each in gates)


def _is_sliced(template: Template, kind: JobKind, rules: Rules) -> bool:
    """Return whether groups of the job itself are slices; a Job of a JobSet is a part of it."""
    found, keys = template.annotations, rules.keys
    is_own = found.get(keys.kind, kind.name) == kind.name
    return keys.pods in found and SLICE_LEVEL in found and is_own


def _is_stopped(job: Mapping[str, Any], kind: JobKind) -> bool:
    return member_at(job, kind.suspended_at) is True


def _odd(pods: int, size: int, where: str) -> AdmissionOutcome | None:
    if not pods % size:
        return None
    what = f"{pods} pods are not whole groups of {size}, and Kueue would split those of the job"
    return _denied(what, where, f"give {whole(pods, size)}")


def _beside_old_pods(kind: JobKind, group: int | None) -> AdmissionOutcome | None:
    """Return why a job is not started now; `group` as `Rules.native_group` returns it."""
    if group is None:
        return UNDECIDED
    where, fix = field_path(kind.suspended_at), "Kueue starts this one once they are gone"
    return _denied(_BESIDE, where, fix) if group else None


def _leaving_pods(
    before: Mapping[str, Any], where: str, group: int | None
) -> AdmissionOutcome | None:
    """Return why a job gets no smaller size now, since pods beyond it would be left."""
    if group is None:
        return UNDECIDED
    if not group:
        return None
    what = "the pods beyond this number would be left, and Kueue would split the groups beside them"
    found = f"kubectl get workloads -l kueue.x-k8s.io/job-uid={_uid(before)}"
    fix = (
        f"set spec.active: false in the job's Workload ({found}), change the number once the pods"
        " are gone, then set spec.active: true"
    )
    return _denied(what, where, fix)


def _denied(what: str, where: str, fix: str) -> AdmissionOutcome:
    return AdmissionOutcome(Result.DENIED, refusal=Refusal(what, where, fix))


def _uid(found: Mapping[str, Any]) -> str:
    return text(mapping(found.get("metadata")).get("uid"))
