"""Groups as slices of a pod set, for Kueue to choose the nodes of a native job.

    8 pods of 8 GPUs, gpu-group-size 16, dragonflies of 2 nodes in switchboxes
    → on the template: podset-slice-required-topology: <domain>/dragonfly, podset-slice-size: "2"

A slice is a number of pods, so it is the size of a group in pods, and each template has to be made
of whole slices. Kueue cuts a pod set in the order of its pods' indices, as ranks are cut here, less
the index of the first one (pod-index-offset). It does this only on a flavor with a topology
(`topo/publish/topologies/kueue.py`).

`gpu-group-within` is the domain that all pods share (podset-required-topology). Groups that are
only preferred are no slices, which are always required: the pods are as near as there is room, from
the level of the group up (podset-preferred-topology).

Sources: Kueue v0.19.2, apis/kueue/v1beta2/topology_types.go, pkg/controller/jobframework/
tas_validation.go, `readRanksIfAvailable` of pkg/controller/tas/topology_ungater.go, `PodSets` of
pkg/controller/jobs/*;
`kueue.x-k8s.io/queue-name` in pkg/controller/constants.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from topo.gangs.admission.native_jobs import no_label
from topo.gangs.admission.outcome import Rules
from topo.gangs.annotation_keys import (
    ADMISSION_GATED_BY,
    HELD_KINDS,
    KUEUE_QUEUE,
    MOST_GATE_CHARS,
    holders,
)
from topo.gangs.job_kinds.templates import JobParts, Template, field_path
from topo.gangs.json_patch import (
    Operation,
    entries,
    mapping,
    member_at,
    scalar_text,
    sequence,
    text,
    type_of,
)
from topo.gangs.native import kinds, lowest_tier_for, tier_of_kind
from topo.gangs.terms import GroupTerms
from topo.model.errors import Refusal
from topo.model.ids import Kind
from topo.placement.job.request import PlacementMode, Request

_PREFIX = "kueue.x-k8s.io/podset-"
SLICE_LEVEL, SLICE_SIZE = f"{_PREFIX}slice-required-topology", f"{_PREFIX}slice-size"
REQUIRED, PREFERRED = f"{_PREFIX}required-topology", f"{_PREFIX}preferred-topology"
FIRST_INDEX = "kueue.x-k8s.io/pod-index-offset"
OF_SLICES = (SLICE_LEVEL, SLICE_SIZE, REQUIRED, PREFERRED, FIRST_INDEX)
"""All that is written here."""
_OF_BATCH_JOBS = {("batch/v1", "Job"), ("jobset.x-k8s.io/v1alpha2", "JobSet")}
_SLICED = {
    *_OF_BATCH_JOBS,
    *(("apps/v1", "StatefulSet"), ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")),
    *(("kubeflow.org/v1", "PyTorchJob"), ("kubeflow.org/v2beta1", "MPIJob")),
}
"""The kinds of which each template is one pod set, whose pods Kueue knows by an index. Workers of
Ray have none for it, and each pod of a Deployment is a workload of its own."""
_RELAYING = "TrainJob"
_ADMITTED_ABOVE = frozenset({_RELAYING, "RayJob", "RayService"})
"""What is made of one of these is a part of it, with no quota of its own."""
_OF_USERS = (
    SLICE_LEVEL,
    SLICE_SIZE,
    f"{SLICE_LEVEL}-constraints",
    REQUIRED,
    PREFERRED,
    f"{_PREFIX}unconstrained-topology",
)
"""By each of these a job asks Kueue for nodes."""


def is_queued(job: Mapping[str, Any], parts: JobParts) -> bool:
    """Return whether Kueue admits the job; Volcano's own Jobs are not its.

    It admits the JobSet of a TrainJob by the TrainJob, whose pods are then sliced already.
    """
    labels = mapping(mapping(job.get("metadata")).get("labels"))
    is_relayed = _RELAYING in _owners(job) and bool(chosen_by_user(parts.templates, {}))
    return (bool(labels.get(KUEUE_QUEUE)) or is_relayed) and not parts.has_pod_group


def _owners(job: Mapping[str, Any]) -> set[str]:
    """Return the kinds of the objects that the job is made of."""
    found = sequence(mapping(job.get("metadata")).get("ownerReferences"))
    return {text(mapping(each).get("kind")) for each in found}


def hands_slices(job: Mapping[str, Any], parts: JobParts) -> bool:
    """Return whether Kueue reads in the job how the pods of what is made of it are sliced."""
    return job.get("kind") == _RELAYING and is_queued(job, parts)


def takes_slices(job: Mapping[str, Any]) -> bool:
    """Return whether the pods of each template of the job are one pod set of Kueue."""
    return type_of(job) in _SLICED


def held(job: Mapping[str, Any], parts: JobParts, rules: Rules) -> tuple[Operation, ...]:
    """Return the operations that hold a job before its quota, beside those who hold it already.

    Kueue lets names be added only when a job is made. What is a part of another job, such as the
    RayCluster of a RayJob, has no quota of its own.
    """
    name = rules.keys.whole_groups
    if not rules.holds_jobs or not is_queued(job, parts) or len(name) > MOST_GATE_CHARS:
        return ()
    is_part = not _ADMITTED_ABOVE.isdisjoint(_owners(job))
    if is_part or type_of(job) not in HELD_KINDS:
        return ()
    annotations = mapping(mapping(job.get("metadata")).get("annotations"))
    names = ",".join(dict.fromkeys([*holders(annotations), name]))
    return tuple(entries(job, ("metadata", "annotations"), {ADMISSION_GATED_BY: names}))


def chosen_by_user(templates: Sequence[Template], wanted: Mapping[str, str]) -> str:
    """Return the annotation by which the user asks Kueue for nodes; empty for none.

    `wanted` are those of a native job, which a second review finds on its templates.
    """
    for each in templates:
        for key in _OF_USERS:
            if key in each.annotations and each.annotations[key] != wanted.get(key):
                return key
    return ""


def podset_slices(
    request: Request,
    terms: GroupTerms,
    rules: Rules,
    places: Mapping[str, str],
    *,
    templates: Sequence[Template],
) -> Mapping[str, str] | Refusal:
    """Return the annotations of each template, or why Kueue cannot keep the groups whole."""
    keys = rules.keys
    for wait in (each.waits for each in templates):
        if wait is not None and wait.is_one_by_one:
            what = "its pods are made one by one, and Kueue chooses the nodes of all at once"
            return Refusal(what, wait.where, f"{wait.fix}, or write {keys.way}: nomination")
    pods = min(request.pods, request.pods_per_group)
    is_required = terms.mode is PlacementMode.REQUIRED
    for each in templates if is_required else ():
        if each.pods % pods:
            what = _odd(each, pods, request.group_size or 0)
            fix = f"give it {whole(each.pods, pods)} pods, or write {keys.way}: nomination"
            return Refusal(what, places[keys.size], fix)
    level = _level(pods, request.gpus_per_pod, rules)
    found = {SLICE_LEVEL: level, SLICE_SIZE: str(pods)} if is_required else {PREFERRED: level}
    if not level:
        return no_label(pods, request.gpus_per_pod, rules, places[keys.size])
    if terms.within is not None:
        tier = tier_of_kind(rules.tiers, terms.within)
        if tier is None or terms.within not in rules.label_keys:
            what = f"{keys.within} is {str(terms.within)!r}, and no group of the tree is one"
            return Refusal(what, places[keys.within], f"write {' or '.join(kinds(rules.tiers))}")
        found[REQUIRED if is_required else PREFERRED] = rules.label_keys[terms.within]
    return found


def replacement_warnings(
    job: Mapping[str, Any], templates: Sequence[Template], slices: Mapping[str, str]
) -> tuple[str, ...]:
    """Return why Kueue may split a job that loses pods, for each template of a batch Job."""
    if SLICE_LEVEL not in slices or type_of(job) not in _OF_BATCH_JOBS:
        return ()
    policies = ((*each.path[:-1], "podReplacementPolicy") for each in templates)
    found = ((field_path(path), member_at(job, path)) for path in policies)
    why = "Kueue may split the groups of a job that gets new pods while lost ones still end"
    return tuple(
        f"{where} is {scalar_text(policy) or 'TerminatingOrFailed'}: {why}; write Failed"
        for where, policy in found
        if policy != "Failed"
    )


def first_index(template: Template) -> dict[str, str]:
    """Return what tells Kueue that the pods of a template are not numbered from 0."""
    return {FIRST_INDEX: str(template.first_index)} if template.first_index else {}


def _level(pods: int, gpus_per_pod: int, rules: Rules) -> str:
    """Return the label of the lowest tier that holds so many pods, of the highest if none does.

    The pods then wait, and are never split. Empty where no label names the tier.
    """
    tier = lowest_tier_for(rules.tiers, pods, gpus_per_pod) or rules.tiers[-1]
    named = sorted(tier.kinds & rules.label_keys.keys(), key=Kind)
    return rules.label_keys[named[0]] if named else ""


def _odd(each: Template, pods: int, group_size: int) -> str:
    return (
        f"{each.name} has {each.pods} pods, and a group of {group_size} GPUs has {pods}:"
        f" {each.pods} is not a multiple of {pods}, and Kueue takes whole slices only"
    )


def whole(count: int, pods: int) -> str:
    """Return the nearest multiples of `pods`."""
    below = count - count % pods
    return f"{below} or {below + pods}" if below else str(pods)
