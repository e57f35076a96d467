"""PodGroups of Kubernetes at admission: the one that a job's pods are to have, and the pods of one.

A job whose pods kube-scheduler binds one by one gets the name of a PodGroup into its template; the
leader makes that object (`master/controllers/pod_groups`). A PodGroup that its user made and that
asks for groups makes its pods a gang, whoever owns them: the pods get the stamp that else comes
from the template of a job.

    PodGroup p, minCount 4, gpu-group-size 16; a pod of it, index 3, 8 GPUs
    → on the pod: gpu-group-size 16, gang-pods 4, gang-pods-per-group 2, gang-rank-offset 0,
      gang-rank 3, gang-of-pod-group p

Below a CompositePodGroup the gang is the whole tree, and `gang-rank-offset` is the place of the
PodGroup in it (`topo.gangs.group_tree`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from topo.gangs.admission.claimed import PodGpus
from topo.gangs.admission.outcome import NamedGroup, Rules
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_kinds.templates import Template
from topo.gangs.json_patch import Operation, add, mapping, remove, scalar_text, text
from topo.gangs.stamp import Stamp
from topo.gangs.terms import GroupTerms, read_terms
from topo.model.errors import Refusal
from topo.placement.job.request import Request, flaw

_MAX_NAME_CHARS = 200
_FIELD = "schedulingGroup"


def name_group(
    job: Mapping[str, Any], template: Template | None, rules: Rules
) -> tuple[str, tuple[Operation, ...]]:
    """Return the name of the PodGroup to make for a job, and the operation that names it.

    Empty where none is to be made, or the user named one.
    """
    if template is None or not rules.makes_groups or _names_own(template, rules.keys):
        return "", ()
    metadata = mapping(job.get("metadata"))
    base = (text(metadata.get("name")) or text(metadata.get("generateName")) or "job").rstrip("-.")
    name = f"{base[:_MAX_NAME_CHARS]}-{rules.token}"
    path = (*template.path, "spec", _FIELD)
    return name, (add(path, value={"podGroupName": name}),)


def without_copied_group(template: Template | None, keys: AnnotationKeys) -> Iterator[Operation]:
    """Yield the operation that removes the PodGroup of the job that this one is a copy of."""
    if template is None or _FIELD not in template.spec or _names_own(template, keys):
        return
    yield remove((*template.path, "spec", _FIELD))


def _names_own(template: Template, keys: AnnotationKeys) -> bool:
    """Return whether the template names a PodGroup that is not one of ours."""
    name = mapping(template.spec.get(_FIELD)).get("podGroupName")
    return name is not None and name != template.annotations.get(keys.pod_group)


@dataclass(frozen=True, slots=True)
class GroupedPod:
    """The terms and the stamp that a pod gets from its PodGroup, and the annotations of both.

    `pods`: how many pods of that PodGroup have ranks, None for any number.
    """

    terms: GroupTerms
    stamp: Stamp
    pods: int | None
    annotations: Mapping[str, str]


def group_name(spec: Mapping[str, Any]) -> str:
    """Return the name of the PodGroup that a pod is of; empty for none."""
    return text(mapping(spec.get(_FIELD)).get("podGroupName"))


def grouped_pod(
    name: str, named: NamedGroup, gpus: PodGpus, rules: Rules
) -> GroupedPod | Refusal | None:
    """Return what a pod with these GPUs gets from its PodGroup `named`.

    None where that asks for no groups.
    """
    terms = read_terms(named.annotations, rules.keys)
    if not isinstance(terms, GroupTerms):
        return terms
    tree = named.tree
    if isinstance(tree, Refusal):
        return tree
    pods = tree.pods if tree is not None else named.min_count
    request = Request(pods=pods, gpus_per_pod=gpus.gpus, group_size=terms.group_size)
    if (refusal := flaw(request)) is not None:
        return Refusal(refusal.what, f"metadata.annotations[{rules.keys.size}]", refusal.fix)
    misfit = tree.misfit(name, request.pods_per_group) if tree is not None else None
    if misfit is not None:
        return misfit
    offset = tree.offset(name) if tree is not None else 0
    stamp = Stamp(pods, offset, request.pods_per_group)
    asked = {
        key: scalar_text(named.annotations[key])
        for key in rules.keys.asked
        if key in named.annotations
    }
    more = {rules.keys.claimed_gpus: str(gpus.claimed)} if gpus.claimed else {}
    more |= {rules.keys.of_composite: tree.root.name} if tree is not None else {}
    return GroupedPod(
        terms=terms,
        stamp=stamp,
        pods=named.min_count if tree is not None else None,
        annotations={
            **asked,
            **more,
            **stamp.annotations(rules.keys),
            rules.keys.of_pod_group: name,
        },
    )
