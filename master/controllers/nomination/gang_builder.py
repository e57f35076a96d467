"""Pods and what stands beside them → gangs, as the machine of `topo.gangs` takes them.

A gang is the pods of one controller that the admission webhook stamped. Each pod says all of its
gang, so no job is read: PodGroup and Queue are, because by them Volcano lets a gang in.

A gate must never be one that nobody opens. So a gated pod whose gang cannot be made out is a gang
of its own that is *waived*: its gate is opened and it is scheduled without a plan.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from master.controllers.nomination import note_codec
from master.controllers.nomination.eligibility import HOSTNAME, Wants, eligibility_of, wants_of
from master.controllers.nomination.queues.quota import AskedGpus, MissingQuota
from master.kube.objects import Key, NodeObject, OwnerReference, PodObject
from master.kube.volcano import TOPOLOGY_MODE_HARD, PodGroupObject
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.gang import Binding, Gang, GangId, Member, PodUid, Selection
from topo.gangs.stamp import Stamp, pod_index, read_number, read_stamp
from topo.gangs.terms import GroupTerms, Way, read_terms
from topo.model.errors import Refusal
from topo.model.ids import Kind, NodeName
from topo.model.limits import MAX_PODS
from topo.model.pod_requests import requested, resources_of
from topo.placement.booking.holds import HoldId
from topo.placement.job.policy import Policy
from topo.placement.job.request import Request, flaw

POD_GROUP = "scheduling.k8s.io/group-name"
"""Annotation of a pod of Volcano: its PodGroup. Source: `KubeGroupNameAnnotationKey` in
volcano.sh/apis."""
NEVER_PREEMPTS = "Never"
"""The `preemptionPolicy` of a pod that has nobody evicted."""
LET_IN = frozenset({"Inqueue", "Running", "Unknown", "Completed"})
"""Phases of a PodGroup whose pods Volcano's scheduler takes up."""


@dataclass(frozen=True, kw_only=True)
class GangContext:
    """What stands beside the pods of gangs. All of it is asked when a gang is read.

    `pod_groups` is None where Volcano is not installed. `no_room`: why a queue cannot take so many
    GPUs now. `kind_of_tier`: the kind of the groups that Volcano's tier of this number has.
    `waived`: gangs that a person wants opened, with why. `ahead_s`: Unix time less the
    master's clock.
    """

    keys: AnnotationKeys
    policy: Policy
    way: Way
    nodes: Callable[[], Iterable[NodeObject]]
    pod_groups: Callable[[], Mapping[Key, PodGroupObject] | None]
    no_room: Callable[[AskedGpus], MissingQuota | None]
    kind_of_tier: Callable[[int], Kind | None]
    labelled: Callable[[GangId], Mapping[NodeName, Selection]]
    holds: Callable[[GangId], tuple[HoldId, ...]]
    ungated: Mapping[GangId, str] = field(default_factory=dict)
    ahead_s: Callable[[], float] = lambda: 0.0


def owner_of(pod: PodObject) -> OwnerReference | None:
    """The object that made the pod, and its gang is known by."""
    return next((each for each in pod.metadata.owner_references if each.controller), None)


def id_of(pod: PodObject) -> GangId:
    """By what a pod's gang is known: its controller, or itself."""
    owner = owner_of(pod)
    return GangId(owner.uid if owner is not None else pod.metadata.uid)


def gang_of(pod: PodObject, keys: AnnotationKeys, way: Way) -> GangId | None:
    """The gang that a pod belongs to; None where the controller has no business with it.

    A pod with our gate always has one, so that the gate is opened whatever else is wrong.
    """
    owner, annotations, alone = owner_of(pod), pod.metadata.annotations, id_of(pod)
    if is_gated(pod, keys):
        return alone
    if keys.placement in annotations:
        return None if _is_of_others(pod, keys) else alone
    terms = read_terms(annotations, keys)
    stamp = read_stamp(annotations, keys)
    if owner is None or not isinstance(terms, GroupTerms) or not isinstance(stamp, Stamp):
        return None
    return alone if (terms.way or way) is Way.NOMINATION else None


def _is_of_others(pod: PodObject, keys: AnnotationKeys) -> bool:
    """Whether our gate was opened because another gate keeper had chosen the node."""
    return HOSTNAME in pod.spec.node_selector and bool(_why_unplanned(pod, keys))


def _why_unplanned(pod: PodObject, keys: AnnotationKeys) -> str:
    return note_codec.why_unplanned(pod.metadata.annotations.get(keys.placement, ""))


def has_slipped(pod: PodObject, keys: AnnotationKeys, way: Way) -> bool:
    """Whether a pod names a group size, waits for no gate of ours and was given no place.

    The webhook was not asked when it was made, or could not be: else it says why it has no groups.
    """
    annotations = pod.metadata.annotations
    if keys.size not in annotations or keys.placement in annotations or is_gated(pod, keys):
        return False
    if keys.ungrouped in annotations:
        return False
    terms = read_terms(annotations, keys)
    return isinstance(terms, GroupTerms) and (terms.way or way) is Way.NOMINATION


def is_gated(pod: PodObject, keys: AnnotationKeys) -> bool:
    """Whether our gate is on the pod."""
    return any(each.name == keys.gate for each in pod.spec.scheduling_gates)


@dataclass(frozen=True, slots=True)
class ReadPod:
    """What one pod says of its gang, whatever stands beside it.

    `asked`: the resource of whole GPUs, and how many. `wants` is None for a pod with a node that
    somebody else chose. `order`: why its gate was opened without a plan, which is so for all of
    its gang: whoever leads then, it holds for those that are gated still, and for a pod that takes
    the place of another. Empty where no such order was given.
    """

    pod: PodObject
    member: Member
    asked: tuple[str, int]
    created_s: float
    wants: Wants | None
    order: str


def read_gang(
    gang_id: GangId,
    pods: Sequence[PodObject],
    context: GangContext,
    known: dict[PodUid, ReadPod] | None = None,
) -> Gang:
    """The gang of these pods, at least one; O(pods), and `eligibility_of`.

    `known` keeps what was read of a pod while it is the same object: of a large gang one pod
    changes at a time.
    """
    known = {} if known is None else known
    read = {PodUid(pod.metadata.uid): _read(gang_id, pod, context, known) for pod in pods}
    known.clear()
    known |= read
    ranked = sorted(read.values(), key=lambda each: (each.member.rank, each.member.name))
    first = ranked[0].pod
    stated = _stated(ranked, context)
    owner = owner_of(first)
    fallback = Request(pods=len(pods), gpus_per_pod=1)
    request = stated if isinstance(stated, Request) else fallback
    group = _pod_group(first, context)
    terms = read_terms(first.metadata.annotations, context.keys)
    awaits = _awaits(gang_id, ranked, group, context)
    return Gang(
        id=gang_id,
        namespace=first.metadata.namespace,
        name=owner.name if owner is not None else first.metadata.name,
        kind=owner.kind if owner is not None else "Pod",
        binding=Binding.WHOLE if POD_GROUP in first.metadata.annotations else Binding.PIECEMEAL,
        request=request,
        at_least=_at_least(group, request),
        priority=max(pod.spec.priority for pod in pods),
        created_s=min(each.created_s for each in ranked) - context.ahead_s(),
        members=tuple(each.member for each in ranked),
        awaits=awaits.text if awaits is not None else "",
        hopeless=awaits is not None and awaits.never,
        ungated=context.ungated.get(gang_id)
        or next((each.order for each in ranked if each.order), "")
        or (stated if isinstance(stated, str) else ""),
        wait_s=terms.wait_s if isinstance(terms, GroupTerms) else None,
        preempts=not any(pod.spec.preemption_policy == NEVER_PREEMPTS for pod in pods),
        unheeded_class=_unheeded_class(group, pods),
        labelled=context.labelled(gang_id),
        holds=context.holds(gang_id),
    )


def _read(
    gang_id: GangId, pod: PodObject, context: GangContext, known: Mapping[PodUid, ReadPod]
) -> ReadPod:
    before = known.get(PodUid(pod.metadata.uid))
    if before is not None and before.pod is pod:
        return before
    return ReadPod(
        pod=pod,
        member=_member(gang_id, pod, context.keys),
        asked=gpus_of(pod, context.policy),
        created_s=_unix_s(pod.metadata.creation_timestamp),
        wants=wants_of(pod.spec) if HOSTNAME not in pod.spec.node_selector else None,
        order=_order(pod, context.keys),
    )


def _order(pod: PodObject, keys: AnnotationKeys) -> str:
    is_over = not is_gated(pod, keys) and not _is_of_others(pod, keys)
    return _why_unplanned(pod, keys) if is_over else ""


def rank_of(pod: PodObject, keys: AnnotationKeys) -> int:
    """The pod's rank in its gang; 0 where nobody says."""
    metadata = pod.metadata
    if (rank := read_number(metadata.annotations.get(keys.rank))) is not None:
        return rank
    stamp = read_stamp(metadata.annotations, keys)
    index = pod_index({"annotations": metadata.annotations, "labels": metadata.labels})
    return (stamp.rank_offset if isinstance(stamp, Stamp) else 0) + (index or 0)


def first_of(pods: Iterable[PodObject], keys: AnnotationKeys) -> PodObject | None:
    """The pod of the lowest rank, on which it is told how its gang stands; None without pods."""
    return min(pods, key=lambda pod: (rank_of(pod, keys), pod.metadata.name), default=None)


def gpus_of(pod: PodObject, policy: Policy) -> tuple[str, int]:
    """The resource of whole GPUs that the pod asks for, and how many; empty and 0 for none."""
    named = resources_of(pod.spec)
    asked = [(name, requested(pod.spec, name)) for name in policy.gpu_resources if name in named]
    return next((pair for pair in asked if pair[1]), ("", 0))


def _stated(read: Sequence[ReadPod], context: GangContext) -> Request | str:
    """What the gang asks for, or why nobody can place it."""
    first = read[0].pod
    annotations, keys = first.metadata.annotations, context.keys
    stamp, terms = read_stamp(annotations, keys), read_terms(annotations, keys)
    if isinstance(stamp, Refusal) or isinstance(terms, Refusal):
        return (
            f"what it asks for cannot be read: {(stamp if isinstance(stamp, Refusal) else terms)}"
        )
    if stamp is None or terms is None:
        return "it has our gate, and does not say which gang and groups it belongs to"
    if owner_of(first) is None:
        return "it belongs to no job"
    gpus = {each.asked[1] for each in read}
    if len(gpus) > 1:
        shown = ", ".join(map(str, sorted(gpus)))
        return f"its pods ask for different numbers of GPUs ({shown})"
    last = max(each.member.rank for each in read)
    if last >= MAX_PODS:
        return "a pod's rank is too large"
    wants = (each.wants for each in read if each.wants is not None)
    request = Request(
        pods=max(stamp.pods, last + 1),
        gpus_per_pod=gpus.pop(),
        group_size=terms.group_size,
        mode=terms.mode,
        within=terms.within or _within(first, context),
        eligible=eligibility_of(wants, context.nodes, keys.node_label(id_of(first))),
    )
    refusal = flaw(request)
    return request if refusal is None else f"{refusal.what}; {refusal.fix}"


def _within(pod: PodObject, context: GangContext) -> Kind | None:
    """The kind of group that the user's own `networkTopology` asks all pods to share."""
    group = _pod_group(pod, context)
    topology = group.spec.network_topology if group is not None else None
    if topology is None or topology.mode != TOPOLOGY_MODE_HARD or not topology.highest_tier_allowed:
        return None
    return context.kind_of_tier(topology.highest_tier_allowed)


def _member(gang_id: GangId, pod: PodObject, keys: AnnotationKeys) -> Member:
    metadata, spec = pod.metadata, pod.spec
    gates = {each.name for each in spec.scheduling_gates}
    hostname = spec.node_selector.get(HOSTNAME)
    return Member(
        uid=PodUid(metadata.uid),
        name=metadata.name,
        rank=rank_of(pod, keys),
        version=metadata.resource_version,
        gated=keys.gate in gates,
        other_gates=bool(gates - {keys.gate}),
        fixed=NodeName(hostname) if hostname else None,
        node=NodeName(spec.node_name) if spec.node_name else None,
        nominated=NodeName(pod.status.nominated_node_name)
        if pod.status.nominated_node_name
        else None,
        note=note_codec.read(gang_id, metadata.annotations.get(keys.placement, "")),
        selection=Selection(spec.node_selector.get(keys.node_label(gang_id), "")),
        terminating=metadata.deletion_timestamp is not None,
        finished=pod.status.phase in {"Succeeded", "Failed"},
        succeeded=pod.status.phase == "Succeeded",
    )


def _pod_group(pod: PodObject, context: GangContext) -> PodGroupObject | None:
    groups, name = context.pod_groups(), pod.metadata.annotations.get(POD_GROUP)
    return groups.get((pod.metadata.namespace, name)) if groups and name else None


def _unheeded_class(group: PodGroupObject | None, pods: Iterable[PodObject]) -> str:
    """The priority class of the pods where Volcano finds none: it looks at the PodGroup's.

    (`Snapshot` in pkg/scheduler/cache/cache.go, v1.14.)
    """
    if group is None or group.spec.priority_class_name:
        return ""
    return next((name for pod in pods if (name := pod.spec.priority_class_name)), "")


def _at_least(group: PodGroupObject | None, request: Request) -> int:
    if group is None or not group.spec.min_member:
        return request.pods
    return min(group.spec.min_member, request.pods)


def _awaits(
    gang_id: GangId,
    read: Sequence[ReadPod],
    group: PodGroupObject | None,
    context: GangContext,
) -> MissingQuota | None:
    """What lets the gang in and did not yet; None for one that needs no leave."""
    name = read[0].pod.metadata.annotations.get(POD_GROUP)
    if name is None:
        return None
    if group is None:
        return MissingQuota(f"its PodGroup {name} is not there yet")
    asked = queue_asked(gang_id, read, context)
    missing = context.no_room(asked) if asked is not None else None
    if group.status.phase in LET_IN or (missing is not None and missing.never):
        return missing
    why = next((each.message for each in group.status.conditions if each.message), "")
    phase = group.status.phase or "not looked at yet"
    said = f": {why[:200]}" if why else ""
    return MissingQuota(f"its PodGroup is {phase} in queue {group.spec.queue}{said}")


def queue_asked(gang_id: GangId, read: Sequence[ReadPod], context: GangContext) -> AskedGpus | None:
    """The GPUs that the gang's gated pods would take in their queue; None where they take none."""
    group = _pod_group(read[0].pod, context)
    asked = [each.asked for each in read if each.member.gated]
    gpus = sum(number for _, number in asked)
    if group is None or not gpus:
        return None
    resource = next(name for name, number in asked if number)
    return AskedGpus(gang=gang_id, queue=group.spec.queue, resource=resource, gpus=gpus)


def _unix_s(text: str) -> float:
    """A time as Kubernetes writes it; 0 for none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
