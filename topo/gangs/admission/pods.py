"""A pod of a stamped template at its creation: its rank, its group, and the gate that holds it.

A gate that is never opened is the worst possible fault. So a pod gets a gate only if the controller
can find and place its gang: the pod has a job as its controller or a PodGroup of Kubernetes that
asks for groups, an index, and GPUs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from topo.gangs.admission.claimed import PodGpus, UnknownTemplate, gpus_of
from topo.gangs.admission.outcome import AWAITED, UNCHANGED, AdmissionOutcome, Result, Rules
from topo.gangs.admission.plain_gang import missing_word, read_plain_gang
from topo.gangs.admission.scheduling_groups import GroupedPod, group_name, grouped_pod
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.job_kind import JobKind, PodFacts
from topo.gangs.job_kinds.plain_pods import PLAIN_PODS, named_gang
from topo.gangs.job_kinds.templates import pod_gpus
from topo.gangs.json_patch import (
    Operation,
    add,
    entries,
    mapping,
    mappings,
    sequence,
    text,
    texts,
    type_of,
)
from topo.gangs.stamp import (
    Stamp,
    pod_index,
    read_claimed,
    read_number,
    read_stamp,
    stamped_rank,
)
from topo.gangs.terms import GroupTerms, Way, read_terms
from topo.model.errors import Refusal
from topo.placement.job.request import Request, flaw


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a pod in its gang; without numbers it gets its rank once it is placed."""

    rank: int | None
    group: int | None
    terms: GroupTerms


def admit_pod(pod: Mapping[str, Any], rules: Rules) -> AdmissionOutcome:
    """Return the outcome for a pod; O(containers)."""
    keys = rules.keys
    metadata, spec = mappings(pod, "metadata", "spec")
    annotations, labels = mappings(metadata, "annotations", "labels")
    kind = _kind(metadata, keys)
    is_plain = kind in {None, PLAIN_PODS} and keys.of_pod_group not in annotations
    if is_plain and keys.size in annotations and named_gang(labels, annotations, keys):
        return _plain(pod, rules)
    lacking = missing_word(annotations, keys) if kind is None else None
    stamp = lacking or read_stamp(annotations, keys)
    if stamp is None or keys.of_pod_group in annotations:
        return _without_stamp(pod, rules)
    terms = read_terms(annotations, keys)
    if isinstance(stamp, Refusal):
        return _left(str(stamp))
    is_elastic = kind is not None and kind.is_elastic
    rank = None if is_elastic else stamped_rank(stamp, annotations, labels, keys)
    why = _why_not(terms, kind)
    if not why and rank is None and not is_elastic:
        why = "it has no index in its job"
    if why or not isinstance(terms, GroupTerms):
        return _left(why)
    gpus = pod_gpus(spec, rules.gpu_resources)
    has_claims = bool(sequence(spec.get("resourceClaims")))
    claimed = read_claimed(annotations, keys, has_claims=has_claims)
    if isinstance(gpus, Refusal) or not (gpus + claimed or stamp.own_domains):
        return UNCHANGED
    if not gpus + claimed:
        rank = None  # its node decides the domain of the others, so it waits for their places
    group = stamp.group(rank) if rank is not None else None
    return _grouped(pod, rules, _Place(rank, group, terms), {})


def _plain(pod: Mapping[str, Any], rules: Rules) -> AdmissionOutcome:
    """Return the outcome for a pod without a job that names its gang."""
    keys = rules.keys
    metadata, spec = mappings(pod, "metadata", "spec")
    annotations, labels = mappings(metadata, "annotations", "labels")
    gpus = gpus_of(spec, text(metadata.get("namespace")), rules)
    if not isinstance(gpus, PodGpus) or not gpus.gpus:
        unknown = AWAITED if isinstance(gpus, UnknownTemplate) else UNCHANGED
        return _left(str(gpus)) if isinstance(gpus, Refusal) else unknown
    terms, gang = read_terms(annotations, keys), read_plain_gang(labels, annotations, keys)
    if isinstance(gang, Refusal) or not isinstance(terms, GroupTerms):
        return _left(str(terms if isinstance(terms, Refusal) else gang))
    request = Request(pods=gang.pods, gpus_per_pod=gpus.gpus, group_size=terms.group_size)
    if (refusal := flaw(request)) is not None:
        return _left(str(refusal))
    stamp = Stamp(gang.pods, 0, request.pods_per_group)
    group = stamp.group(gang.rank) if gang.rank is not None else None
    more = {**stamp.annotations(keys), keys.kind: PLAIN_PODS.name}
    more |= {keys.claimed_gpus: str(gpus.claimed)} if gpus.claimed else {}
    return _grouped(pod, rules, _Place(gang.rank, group, terms), more)


def _without_stamp(pod: Mapping[str, Any], rules: Rules) -> AdmissionOutcome:
    """Return the outcome for a pod whose job is not stamped."""
    metadata, spec = mappings(pod, "metadata", "spec")
    annotations, has_group = mapping(metadata.get("annotations")), bool(group_name(spec))
    if rules.takes_requests and rules.keys.consumed(annotations) and not has_group:
        return _consuming(spec, rules)
    return _lone(pod, rules) if _is_lone(pod, rules) else _of_group(pod, rules)


def _is_lone(pod: Mapping[str, Any], rules: Rules) -> bool:
    """Return whether a pod has no group, and is of a namespace whose pods get nodes by links."""
    metadata, spec = mappings(pod, "metadata", "spec")
    stated = mapping(metadata.get("annotations")).keys() & {rules.keys.size, rules.keys.ungrouped}
    return rules.by_links and not (stated or group_name(spec) or spec.get("nodeName"))


def _lone(pod: Mapping[str, Any], rules: Rules) -> AdmissionOutcome:
    """Return the outcome for a pod without a group: it is a gang of its own, whoever made it."""
    keys, (metadata, spec) = rules.keys, mappings(pod, "metadata", "spec")
    gpus = gpus_of(spec, text(metadata.get("namespace")), rules)
    if not isinstance(gpus, PodGpus) or not gpus.gpus:
        return UNCHANGED
    more = {
        **Stamp(pods=1, rank_offset=0, pods_per_group=1).annotations(keys),
        keys.kind: PLAIN_PODS.name,
        keys.gang_name: f"pod-{rules.token}",
        keys.size: str(gpus.gpus),
        keys.way: Way.NOMINATION.value,
        keys.by_links: "true",
    }
    more |= {keys.claimed_gpus: str(gpus.claimed)} if gpus.claimed else {}
    terms = GroupTerms(group_size=gpus.gpus, way=Way.NOMINATION)
    return _grouped(pod, rules, _Place(0, 0, terms), more)


def _of_group(pod: Mapping[str, Any], rules: Rules) -> AdmissionOutcome:
    """Return the outcome for a pod whose job is not stamped: its PodGroup may ask for groups."""
    metadata, spec = mappings(pod, "metadata", "spec")
    name, namespace = group_name(spec), text(metadata.get("namespace"))
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
        return _ungrouped(pod, rules, str(found))
    annotations, labels = mappings(mapping(pod.get("metadata")), "annotations", "labels")
    index = read_number(annotations.get(rules.keys.rank))
    index = index if index is not None else pod_index(annotations, labels)
    if index is None:
        why = f"it has no index; give it one in the annotation {rules.keys.rank}"
        return _ungrouped(pod, rules, why)
    offset = found.stamp.rank_offset
    if rules.keys.of_composite in annotations:  # judged before: what stands there is the rank
        index -= offset
    if found.pods is not None and not 0 <= index < found.pods:
        why = f"its index {index} is none of the {found.pods} pods (minCount) of its PodGroup"
        return _ungrouped(pod, rules, why)
    rank = offset + index
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


def _ungrouped(pod: Mapping[str, Any], rules: Rules, why: str) -> AdmissionOutcome:
    """Return the outcome for a pod whose PodGroup asks for groups that it cannot have.

    It bears the reason, since a controller makes it and reads no warnings.
    """
    patch = entries(pod, ("metadata", "annotations"), {rules.keys.ungrouped: why})
    return replace(_left(why), patch=tuple(patch))


def _grouped(
    pod: Mapping[str, Any], rules: Rules, place: _Place, annotations: Mapping[str, str]
) -> AdmissionOutcome:
    """Return the outcome for a pod of a gang: its rank, its group, more annotations, the gate."""
    keys, spec = rules.keys, mapping(pod.get("spec"))
    of_pod, patch = dict(annotations), list[Operation]()
    if place.rank is not None:
        of_pod[keys.rank] = str(place.rank)
        patch += entries(pod, ("metadata", "labels"), {keys.group: str(place.group)})
    if of_pod:
        patch += entries(pod, ("metadata", "annotations"), of_pod)
    held = (place.terms.way or rules.way) is Way.NOMINATION and not spec.get("nodeName")
    if held:
        patch += _gate(spec, keys.gate)
    if not patch:
        return UNCHANGED
    return AdmissionOutcome(Result.GATED if held else Result.LABELLED, tuple(patch))


def _why_not(terms: GroupTerms | Refusal | None, kind: JobKind | None) -> str:
    if isinstance(terms, Refusal):
        return terms.what
    if terms is None:
        return "it names no group size"
    return kinds.others() if kind is None else ""


def _kind(metadata: Mapping[str, Any], keys: AnnotationKeys) -> JobKind | None:
    """Return the kind of job that a pod is of; None where its gang could not be found later."""
    owners = [mapping(each) for each in sequence(metadata.get("ownerReferences"))]
    controller = next((each for each in owners if each.get("controller")), {})
    annotations, labels = mappings(metadata, "annotations", "labels")
    facts = PodFacts(
        keys=keys,
        namespace=text(metadata.get("namespace")),
        labels=texts(labels),
        annotations=texts(annotations),
        owner_version=text(controller.get("apiVersion")),
        owner_kind=text(controller.get("kind")),
        owner_name=text(controller.get("name")),
        owner_uid=text(controller.get("uid")),
    )
    stamped = annotations.get(keys.kind)
    owner = type_of(controller)
    if kinds.gang_name(stamped, facts) is None:
        return kinds.job_kind([owner])
    return kinds.kind_of(stamped, owner)


def _gate(spec: Mapping[str, Any], name: str) -> list[Operation]:
    """Return the operation that adds the gate to those of the pod; none where it is there."""
    gates = sequence(spec.get("schedulingGates"))
    if not gates:
        return [add(("spec", "schedulingGates"), value=[{"name": name}])]
    is_there = name in (mapping(each).get("name") for each in gates)
    return [] if is_there else [add(("spec", "schedulingGates", "-"), value={"name": name})]
