"""A pod of a stamped template at its creation: its rank, its group, and the gate that holds it.

A gate that is never opened is the worst possible fault. So a pod gets a gate only if the controller
can find and place its gang: the pod has a job as its controller, an index, and GPUs.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.admission.outcome import UNCHANGED, AdmissionOutcome, Result, Rules
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.templates import pod_gpus
from topo.gangs.json_patch import Operation, add, entries, mapping, mappings, sequence
from topo.gangs.stamp import Stamp, pod_index, read_stamp
from topo.gangs.terms import GroupTerms, Way, read_terms
from topo.model.errors import Refusal


def admit_pod(pod: Mapping[str, Any], rules: Rules) -> AdmissionOutcome:
    """Return the outcome for a pod; O(containers)."""
    keys = rules.keys
    metadata, spec = mappings(pod, "metadata", "spec")
    annotations, labels = mappings(metadata, "annotations", "labels")
    stamp = read_stamp(annotations, keys)
    if stamp is None:
        return UNCHANGED
    terms = read_terms(annotations, keys)
    index = pod_index(annotations, labels)
    why = _why_not(stamp, terms, index, metadata)
    if why or isinstance(stamp, Refusal) or not isinstance(terms, GroupTerms) or index is None:
        text = f"the pod is scheduled without a group: {why}"
        return AdmissionOutcome(Result.LEFT, warnings=(text,))
    gpus = pod_gpus(spec, rules.gpu_resources)
    if isinstance(gpus, Refusal) or not gpus:
        return UNCHANGED
    rank = stamp.rank_offset + index
    group = {keys.group: str(stamp.group(rank))}
    patch = [
        *entries(pod, ("metadata", "labels"), group),
        *entries(pod, ("metadata", "annotations"), {keys.rank: str(rank)}),
    ]
    held = (terms.way or rules.way) is Way.NOMINATION and not spec.get("nodeName")
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
