"""A pod of a stamped template at its creation: its rank, its group, and the gate that holds it.

A gate that is never opened is the worst possible fault. So a pod gets a gate only if the controller
can find and place its gang: the pod has a job as its controller or a PodGroup of Kubernetes that
asks for groups, an index, and GPUs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from topo.gangs.admission.claimed import PodGpus, UnknownTemplate, gpus_of
from topo.gangs.admission.outcome import AWAITED, UNCHANGED, AdmissionOutcome, Result, Rules
from topo.gangs.admission.scheduling_groups import GroupedPod, group_name, grouped_pod
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.templates import pod_gpus
from topo.gangs.json_patch import Operation, add, entries, mapping, mappings, sequence
from topo.gangs.stamp import Stamp, pod_index, read_claimed, read_number, read_stamp
from topo.gangs.terms import GroupTerms, Way, read_terms
from topo.model.errors import Refusal


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a pod in its gang."""

    rank: int
    group: int
    terms: GroupTerms


def admit_pod(pod: Mapping[str, Any], rules: Rules) -> AdmissionOutcome:
    """Return the outcome for a pod; O(containers)."""
    keys = rules.keys
    metadata, spec = mappings(pod, "metadata", "spec")
    annotations, labels = mappings(metadata, "annotations", "labels")
    stamp = read_stamp(annotations, keys)
    if stamp is None or keys.of_pod_group in annotations:
        consumes = rules.takes_requests and keys.consumed(annotations) and not group_name(spec)
        return _consuming(spec, rules) if consumes else _of_group(pod, rules)
    terms = read_terms(annotations, keys)
    index = pod_index(annotations, labels)
    why = _why_not(stamp, terms, index, metadata)
    if why or isinstance(stamp, Refusal) or not isinstance(terms, GroupTerms) or index is None:
        return _left(why)
    gpus = pod_gpus(spec, rules.gpu_resources)
    has_claims = bool(sequence(spec.get("resourceClaims")))
    claimed = read_claimed(annotations, keys, has_claims=has_claims)
    if isinstance(gpus, Refusal) or not gpus + claimed:
        return UNCHANGED
    rank = stamp.rank_offset + index
    return _grouped(pod, rules, _Place(rank, stamp.group(rank), terms), {})


def _of_group(pod: Mapping[str, Any], rules: Rules) -> AdmissionOutcome:
    """Return the outcome for a pod whose job is not stamped: its PodGroup may ask for groups."""
    metadata, spec = mappings(pod, "metadata", "spec")
    name, namespace = group_name(spec), str(metadata.get("namespace", ""))
    named = rules.named_group(namespace, name) if name else None
    if not name or (named is not None and rules.keys.size not in named.annotations):
        return UNCHANGED
    gpus = gpus_of(spec, namespace, rules)
    if isinstance(gpus, PodGpus) and not gpus.gpus:
        return UNCHANGED
    if named is None or isinstance(gpus, UnknownTemplate):
        return AWAITED
    found = gpus if isinstance(gpus, Refusal) else grouped_pod(name, named, gpus, rules)
    return UNCHANGED if found is None else _with_rank(pod, rules, found)


def _with_rank(
    pod: Mapping[str, Any], rules: Rules, found: GroupedPod | Refusal
) -> AdmissionOutcome:
    """Return the outcome for a pod whose PodGroup asks for groups."""
    if isinstance(found, Refusal):
        return _left(str(found))
    annotations, labels = mappings(mapping(pod.get("metadata")), "annotations", "labels")
    rank = read_number(annotations.get(rules.keys.rank))
    rank = rank if rank is not None else pod_index(annotations, labels)
    if rank is None:
        return _left(f"it has no index; give it one in the annotation {rules.keys.rank}")
    place = _Place(rank, found.stamp.group(rank), found.terms)
    return _grouped(pod, rules, place, found.annotations)


def _consuming(spec: Mapping[str, Any], rules: Rules) -> AdmissionOutcome:
    """Return the outcome for a pod that consumes a ProvisioningRequest: the gate.

    Its rank follows from the other pods that do, whoever made them.
    """
    gpus = pod_gpus(spec, rules.gpu_resources)
    takes_some = not isinstance(gpus, Refusal) and gpus > 0
    patch = _gate(spec, rules.keys.gate) if takes_some and not spec.get("nodeName") else []
    return AdmissionOutcome(Result.GATED, tuple(patch)) if patch else UNCHANGED


def _left(why: str) -> AdmissionOutcome:
    text = f"the pod is scheduled without a group: {why}"
    return AdmissionOutcome(Result.LEFT, warnings=(text,))


def _grouped(
    pod: Mapping[str, Any], rules: Rules, place: _Place, annotations: Mapping[str, str]
) -> AdmissionOutcome:
    """Return the outcome for a pod of a gang: its rank, its group, more annotations, the gate."""
    keys, spec = rules.keys, mapping(pod.get("spec"))
    of_pod = {**annotations, keys.rank: str(place.rank)}
    patch = [
        *entries(pod, ("metadata", "labels"), {keys.group: str(place.group)}),
        *entries(pod, ("metadata", "annotations"), of_pod),
    ]
    held = (place.terms.way or rules.way) is Way.NOMINATION and not spec.get("nodeName")
    if held:
        patch += _gate(spec, keys.gate)
    if not patch:
        return UNCHANGED
    return AdmissionOutcome(Result.GATED if held else Result.LABELLED, tuple(patch))


def _why_not(
    stamp: Stamp | Refusal,
    terms: GroupTerms | Refusal | None,
    index: int | None,
    metadata: Mapping[str, Any],
) -> str:
    if isinstance(stamp, Refusal):
        return stamp.what
    if isinstance(terms, Refusal):
        return terms.what
    if terms is None:
        return "it names no group size"
    if not _is_of_a_job(metadata):
        return f"it belongs to {' and '.join(f'no {each.title}' for each in kinds.JOB_KINDS)}"
    return "it has no index in its job" if index is None else ""


def _is_of_a_job(metadata: Mapping[str, Any]) -> bool:
    owners = map(mapping, sequence(metadata.get("ownerReferences")))
    controllers = (each for each in owners if each.get("controller"))
    return (
        kinds.job_kind((str(each.get("apiVersion")), str(each.get("kind"))) for each in controllers)
        is not None
    )


def _gate(spec: Mapping[str, Any], name: str) -> list[Operation]:
    """Return the operation that adds the gate to those of the pod; none where it is there."""
    gates = sequence(spec.get("schedulingGates"))
    if not gates:
        return [add(("spec", "schedulingGates"), value=[{"name": name}])]
    is_there = name in (mapping(each).get("name") for each in gates)
    return [] if is_there else [add(("spec", "schedulingGates", "-"), value={"name": name})]
