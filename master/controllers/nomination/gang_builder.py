"""Pods and their context → gangs, as the machine of `topo.gangs` takes them.

A gang is the pods of one controller, or of one PodGroup of Kubernetes, that the admission webhook
stamped. The stamp on each pod describes the whole gang, so no job is read. PodGroup and Queue are
read, because they decide whether Volcano admits a gang, and PodGroups of Kubernetes (scheduling
groups here), because they decide how kube-scheduler binds it.

Every gate must be opened eventually. So a gated pod whose gang cannot be determined is a gang of
its own that is *ungated*: its gate is opened and it is scheduled without a plan.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from master.controllers.nomination.eligibility import with_eligibility
from master.controllers.nomination.queues.quota import AskedGpus, MissingQuota
from master.controllers.nomination.sources import Reservation
from master.kube.dra.counts import with_devices
from master.kube.gang_pod import EndedPod, GangPod, LabelIn, NodeWants
from master.kube.objects import Key, NodeObject
from master.kube.schedulers.composite_groups import CompositeGroupObject
from master.kube.schedulers.conditions import explanation
from master.kube.schedulers.scheduling_groups import SchedulingGroupObject
from master.kube.schedulers.volcano import TOPOLOGY_MODE_HARD, PodGroupObject
from master.kube.schema.affinity import NodeSelector
from topo.gangs.annotation_keys import AnnotationKeys, is_workload
from topo.gangs.consumers import Consumer, consumer_ranks
from topo.gangs.machine.gang import (
    Binding,
    Gang,
    GangId,
    Member,
    PodUid,
    Selection,
    expected_member,
)
from topo.gangs.ranks import Unranked, assign_ranks
from topo.gangs.stamp import Stamp
from topo.gangs.terms import GroupTerms
from topo.model.errors import Refusal
from topo.model.ids import Kind, NodeName
from topo.model.limits import MAX_PODS, MAX_PODS_AHEAD
from topo.model.pod_requests import Amounts, most_of
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import Request, flaw

LET_IN = frozenset({"Inqueue", "Running", "Unknown", "Completed"})
"""Phases of a PodGroup whose pods Volcano's scheduler takes up."""

_BY_RANK = attrgetter("rank", "metadata.name")
_BY_ORDER = attrgetter("rank", "created_s", "metadata.name")
SETTLE_S = 5.0
"""How long after its newest pod an elastic gang waits for further ones before it starts.

Controllers make the pods of one change within a second or two, 500 at a time."""


@dataclass(kw_only=True)
class GangContext:
    """The facts, besides its pods, from which a gang is built; each callable is read per gang.

    `pod_groups` is None where Volcano is not installed, `scheduling_groups` and `composite_groups`
    where those are not listed. `missing_quota` returns why a queue cannot take a number of GPUs
    now. `kind_of_tier` returns the kind of group that a Volcano tier number stands for,
    `tier_of_kind` the reverse, `kind_of_label` the kind whose name a node label holds. `devices`
    returns the devices that the claims of a pod take. `ended` returns the pods of a gang that have
    succeeded. `ungated` maps gangs whose gates a person wants opened to the reason. `reservation`
    returns what a request has booked, None where those are not answered. `ahead_s` is
    Unix time minus the master's clock; it is constant during a leader's term.
    """

    keys: AnnotationKeys
    nodes: Callable[[], Iterable[NodeObject]]
    pod_groups: Callable[[], Mapping[Key, PodGroupObject] | None]
    scheduling_groups: Callable[[], Mapping[Key, SchedulingGroupObject] | None]
    composite_groups: Callable[[], Mapping[Key, CompositeGroupObject] | None]
    missing_quota: Callable[[AskedGpus], MissingQuota | None]
    kind_of_tier: Callable[[int], Kind | None]
    tier_of_kind: Callable[[Kind], int | None]
    kind_of_label: Callable[[str], Kind | None]
    labelled: Callable[[GangId], Mapping[NodeName, Selection]]
    holds: Callable[[GangId], tuple[HoldId, ...]]
    devices: Callable[[GangPod], Amounts]
    volume_nodes: Callable[[GangPod], tuple[NodeSelector | LabelIn, ...]]
    missing_volume: Callable[[GangPod], str]
    ended: Callable[[GangId], Iterable[EndedPod]]
    ungated: Mapping[GangId, str] = field(default_factory=dict)
    reservation: Callable[[Key], Reservation | None] | None = None
    clock: Callable[[], float] = time.monotonic
    ahead_s: float = 0.0

    def pod_group(self, pod: GangPod) -> PodGroupObject | None:
        """Return the PodGroup of a pod; None if it has none or the PodGroup is unknown."""
        groups = self.pod_groups() if pod.pod_group is not None else None
        return groups.get(pod.pod_group) if groups and pod.pod_group is not None else None

    def scheduling_group(self, pod: GangPod) -> SchedulingGroupObject | None:
        """Return the PodGroup of Kubernetes of a pod; None if it has none or it is unknown."""
        groups = self.scheduling_groups() if pod.scheduling_group is not None else None
        return groups.get(pod.scheduling_group) if groups and pod.scheduling_group else None

    def composite_group(self, pod: GangPod) -> CompositeGroupObject | None:
        """Return the CompositePodGroup that is a pod's gang; None if it has none or unknown."""
        groups = self.composite_groups() if pod.composite_group is not None else None
        return groups.get(pod.composite_group) if groups and pod.composite_group else None


def build_gang(gang_id: GangId, pods: Sequence[GangPod], context: GangContext) -> Gang:
    """Return the gang of these pods (at least one); O(pods), plus `eligibility_of`."""
    ranked = _ranked(pods)
    first = ranked[0]
    reservation = _reservation(ranked, context)
    if reservation is not None and first.stamp is None:
        ranked = _with_ranks(ranked, reservation)
        first = ranked[0]
    group = context.pod_group(first)
    stated: Request | str
    if first.stamp is None and reservation is not None:
        stated = _stated_by_request(ranked, context, reservation)
    elif first.by_links and group is not None and group.spec.min_member > 1:
        stated = f"its PodGroup starts {group.spec.min_member} pods together, which have no group"
    else:
        stated = _stated(ranked, group, context)
    if first.is_late and isinstance(stated, Request) and stated.pods > MAX_PODS_AHEAD:
        stated = f"places are kept for at most {MAX_PODS_AHEAD} pods, and it has {stated.pods}"
    # A gang that cannot be placed still needs a request; it is opened without a plan.
    fallback = Request(pods=len(pods), gpus_per_pod=1)
    request = stated if isinstance(stated, Request) else fallback
    awaits = awaited_quota(gang_id, ranked, context)
    if awaits is None and reservation is not None and reservation.awaits:
        awaits = MissingQuota(reservation.awaits)
    least = group.spec.min_member if group is not None else _min_count(first, context)
    if first.job is not None:
        least = 0  # its pods have several PodGroups, each of a part of them
    kind, name = _named(first)
    ended = tuple(map(_ended_member, _ended(first, context)))
    members = (*map(_member, ranked), *ended)
    if first.is_late and not ended:
        members += tuple(_expected(gang_id, members, request))
    order = next((pod.unplanned for pod in ranked if pod.unplanned), "")
    return Gang(
        id=gang_id,
        namespace=first.metadata.namespace,
        name=name,
        kind=kind,
        binding=_binding(first, context),
        request=request,
        at_least=1 if first.is_elastic else min(least or request.pods, request.pods),
        priority=max([pod.priority for pod in pods]),
        created_s=min([pod.created_s for pod in pods]) - context.ahead_s,
        members=members,
        awaits=awaits.text if awaits is not None else "",
        hopeless=awaits is not None and awaits.never,
        ungated=context.ungated.get(gang_id)
        or order
        or (stated if isinstance(stated, str) else ""),
        wait_s=first.terms.wait_s if isinstance(first.terms, GroupTerms) else None,
        preempts=all(pod.may_preempt for pod in pods),
        unheeded_class=_unheeded_class(group, pods),
        takes=_most(ranked, context),
        fewest_gpus=_fewest_gpus(ranked),
        by_links=first.by_links,
        is_of_kueue=first.is_of_kueue,
        is_elastic=first.is_elastic,
        labelled=context.labelled(gang_id),
        holds=context.holds(gang_id),
        booked=(reservation.hold,) if reservation is not None and reservation.hold else (),
    )


def _reservation(pods: Sequence[GangPod], context: GangContext) -> Reservation | None:
    """Return what was booked for the gang before its pods were there; None where none is asked.

    A gang that has begun waits for nothing more.
    """
    name = next((pod.consumes for pod in pods if pod.consumes), "")
    if not name or context.reservation is None:
        return None
    found = context.reservation((pods[0].metadata.namespace, name))
    has_begun = any(pod.node is not None or pod.note is not None for pod in pods)
    return replace(found, awaits="") if found is not None and has_begun else found


def _noted_group(pod: GangPod) -> int | None:
    return pod.note.group if pod.note is not None else None


def _with_ranks(pods: Iterable[GangPod], reservation: Reservation) -> list[GangPod]:
    """Return pods that no job was stamped for, with the ranks that they have in their gang."""
    size = reservation.request.pods_per_group if reservation.request is not None else MAX_PODS
    ranks = consumer_ranks(
        (
            Consumer(pod.metadata.uid, pod.metadata.name, pod.rank, _noted_group(pod))
            for pod in pods
        ),
        size,
    )
    return sorted((replace(pod, rank=ranks[pod.metadata.uid]) for pod in pods), key=_BY_RANK)


def _named(first: GangPod) -> tuple[str, str]:
    """Return the kind and the name of the object whose pods are the gang."""
    if first.composite_group is not None:
        return "CompositePodGroup", first.composite_group[1]
    if first.job is not None:
        return first.job
    if first.is_of_group and first.scheduling_group is not None:
        return "PodGroup", first.scheduling_group[1]
    if first.owner is None and first.consumes and not is_workload(first.consumes):
        return "ProvisioningRequest", first.consumes
    if first.owner is None:
        return "Pod", first.metadata.name
    return first.owner.kind, first.owner.name


def _binding(first: GangPod, context: GangContext) -> Binding:
    """Return how the gang's scheduler binds it; an unknown PodGroup counts as all or none."""
    if first.pod_group is not None:
        return Binding.WHOLE
    group = context.composite_group(first) or context.scheduling_group(first)
    is_basic = group is not None and not group.is_gang
    return Binding.PIECEMEAL if first.scheduling_group is None or is_basic else Binding.POD_GROUP


def _min_count(first: GangPod, context: GangContext) -> int:
    if first.composite_group is not None:
        return first.stamp.pods if isinstance(first.stamp, Stamp) else 0
    group = context.scheduling_group(first)
    return group.min_count if group is not None and group.is_gang else 0


def first_of(pods: Iterable[GangPod]) -> GangPod | None:
    """Return the pod of the lowest rank, which carries the gang's status; None without pods."""
    return min(pods, key=_BY_RANK, default=None)


def _stated(
    ranked: Sequence[GangPod],
    group: PodGroupObject | None,
    context: GangContext,
) -> Request | str:
    """Return the request of the gang, or why the gang cannot be placed."""
    first = ranked[0]
    stamp, terms = first.stamp, first.terms
    if isinstance(stamp, Refusal) or isinstance(terms, Refusal):
        refused = stamp if isinstance(stamp, Refusal) else terms
        return f"what it asks for cannot be read: {refused}"
    if stamp is None or terms is None:
        return "it has our gate, and does not say which gang and groups it belongs to"
    if first.owner is None and first.job is None and not first.is_of_group:
        return "it belongs to no job"
    within = terms.within or _within(group, context)
    for key in _unknown_keys(ranked, context):
        return f"its PodGroup wants one {key}, which is no label of a group that is known here"
    if (kind := context.kind_of_label(_topology_key(first, context))) is not None:
        within = _inner(kind, within, context)
    last = min(ranked[-1].rank, MAX_PODS)
    request = Request(
        # A rank beyond the stamp shows that the job has more pods than it was stamped with.
        pods=last + 1 if _is_settled(ranked, context) else max(stamp.pods, last + 1),
        gpus_per_pod=max([pod.gpus for pod in ranked]),
        group_size=terms.group_size,
        mode=terms.mode,
        within=within,
    )
    refusal = flaw(request)
    if refusal is not None:
        return f"{refusal.what}; {refusal.fix}"
    return _with_wants(request, ranked, context)


def _stated_by_request(
    ranked: Sequence[GangPod], context: GangContext, reservation: Reservation
) -> Request | str:
    """Return the job of a ProvisioningRequest as that of its pods, which are not stamped."""
    asked = reservation.request
    most = max([pod.gpus for pod in ranked])
    if asked is None and reservation.awaits:
        return Request(pods=len(ranked), gpus_per_pod=max(1, most))
    if asked is None:
        return f"its ProvisioningRequest {ranked[0].consumes} is gone or says no groups"
    pods = max(asked.pods, min(ranked[-1].rank, MAX_PODS) + 1)
    request = replace(asked, pods=pods, gpus_per_pod=max(asked.gpus_per_pod, most))
    refusal = flaw(request)
    if refusal is not None:
        return f"{refusal.what}; {refusal.fix}"
    return _with_wants(replace(request, by_rank=()), ranked, context)


def _with_wants(request: Request, ranked: Sequence[GangPod], context: GangContext) -> Request:
    """Return the request with the nodes that its pods may use."""
    wants = {pod.rank: _wants(pod, context) for pod in ranked if pod.wants is not None}
    own_label = context.keys.node_label_prefix + ranked[0].gang_id
    return with_eligibility(request, wants, context.nodes, own_label)


def _ranked(pods: Sequence[GangPod]) -> list[GangPod]:
    """Return the pods by rank; those that state none get it here."""
    stamp = pods[0].stamp
    if all(pod.has_rank for pod in pods) or not isinstance(stamp, Stamp):
        return sorted(pods, key=_BY_RANK)
    found = sorted((pod for pod in pods if not pod.has_rank), key=_BY_ORDER)
    leaving = [pod for pod in found if pod.finished or pod.terminating]
    staying = [pod for pod in found if not (pod.finished or pod.terminating)]
    unranked = [_unranked(pod) for pod in staying]
    if all(pod.gated for pod in staying):
        # Of a gang that has not begun no rank is left out, although a template may lack pods.
        unranked = [replace(pod, first_rank=0) for pod in unranked]
    stated = [pod for pod in pods if pod.has_rank]
    ranks = assign_ranks(unranked, stamp.pods_per_group, [pod.rank for pod in stated])
    # One that leaves has no rank any more; whoever replaces it may get the one that it had.
    pairs = [*zip(staying, ranks, strict=True), *((pod, 0) for pod in leaving)]
    return sorted((*stated, *(replace(pod, rank=rank) for pod, rank in pairs)), key=_BY_RANK)


def _expected(gang_id: GangId, members: Sequence[Member], request: Request) -> Iterator[Member]:
    """Yield a member for each rank without a pod, of a gang whose pods are not made together.

    Once a pod has succeeded, the pod of a missing rank may have, too, so that nothing is kept.
    """
    there = {member.rank for member in members if member.live}
    return (expected_member(gang_id, rank) for rank in range(request.pods) if rank not in there)


def _unranked(pod: GangPod) -> Unranked:
    is_placed = pod.note is not None and not pod.note.withdrawn
    return Unranked(
        first_rank=pod.stamp.rank_offset if isinstance(pod.stamp, Stamp) else 0,
        group=pod.note.group if pod.note is not None and is_placed else None,
    )


def _is_settled(ranked: Sequence[GangPod], context: GangContext) -> bool:
    """Return whether the pods that an elastic gang has now are all that it needs to start.

    So it is once one has passed its gate, or when no more came for a while: at the update of a
    Deployment the new pods are fewer than its replicas.
    """
    if not ranked[0].is_elastic:
        return False
    if any(not pod.gated for pod in ranked):
        return True
    newest_s = max(pod.created_s for pod in ranked) - context.ahead_s
    return context.clock() - newest_s >= SETTLE_S


def _inner(kind: Kind, other: Kind | None, context: GangContext) -> Kind:
    """Return that of two kinds of group whose groups are inside those of the other."""
    tier = context.tier_of_kind(kind)
    beside = context.tier_of_kind(other) if other is not None else None
    is_outer = tier is not None and beside is not None and tier > beside
    return other if is_outer and other is not None else kind


def _wants(pod: GangPod, context: GangContext) -> NodeWants:
    """Return what a pod, which wants something, requires of its node, with its volumes."""
    assert pod.wants is not None, "the caller has looked"  # noqa: S101 - for the type checker
    volumes = context.volume_nodes(pod) if pod.claims else ()
    return replace(pod.wants, volumes=volumes) if volumes else pod.wants


def _fewest_gpus(pods: Sequence[GangPod]) -> int:
    """Return the GPUs of the smallest pod where pods differ; else 0."""
    gpus = {pod.gpus for pod in pods}
    return min(gpus) if len(gpus) > 1 else 0


def _most(pods: Iterable[GangPod], context: GangContext) -> Amounts:
    """Return the most that any of the pods takes of each resource beside GPUs."""
    return most_of([with_devices(pod.takes, context.devices(pod)) for pod in pods])


def _topology_key(first: GangPod, context: GangContext) -> str:
    """Return the node label of which all pods of the gang need one value; empty for none."""
    if first.composite_group is not None:
        root = context.composite_group(first)
        return root.spec.topology_key if root is not None else ""
    group = context.scheduling_group(first)
    return group.spec.topology_key if group is not None else ""


def _unknown_keys(pods: Sequence[GangPod], context: GangContext) -> Iterator[str]:
    """Yield the labels that constraints of the pods' groups name, and that no kind of group has.

    A known label of a PodGroup below a CompositePodGroup needs nothing more: its pods are one
    group, whole in the lowest tier that takes it.
    """
    of_groups = {pod.scheduling_group: pod for pod in pods}.values()
    groups = filter(None, map(context.scheduling_group, of_groups))
    keys = (_topology_key(pods[0], context), *(each.spec.topology_key for each in groups))
    yield from (key for key in keys if key and context.kind_of_label(key) is None)


def _within(group: PodGroupObject | None, context: GangContext) -> Kind | None:
    """Return the kind of group that the user's own `networkTopology` asks all pods to share."""
    topology = group.spec.network_topology if group is not None else None
    if topology is None or topology.mode != TOPOLOGY_MODE_HARD or not topology.highest_tier_allowed:
        return None
    return context.kind_of_tier(topology.highest_tier_allowed)


def _member(pod: GangPod) -> Member:
    return Member(
        uid=PodUid(pod.metadata.uid),
        name=pod.metadata.name,
        rank=pod.rank,
        version=pod.metadata.resource_version,
        gated=pod.gated,
        other_gates=pod.other_gates,
        fixed=pod.fixed,
        node=pod.node,
        nominated=pod.nominated,
        note=pod.note,
        selection=pod.selection,
        unscheduled=pod.unscheduled,
        terminating=pod.terminating,
        finished=pod.finished,
    )


def _ended(first: GangPod, context: GangContext) -> Iterator[EndedPod]:
    """Yield the pods of the gang that have succeeded, not those of an earlier PodGroup."""
    group = context.composite_group(first) or context.scheduling_group(first)
    since_s = group.metadata.created_s if group is not None and first.is_of_group else 0.0
    return (pod for pod in context.ended(first.gang_id) if pod.created_s >= since_s)


def _ended_member(pod: EndedPod) -> Member:
    metadata = pod.metadata
    return Member(
        uid=PodUid(metadata.uid),
        name=metadata.name,
        rank=pod.rank,
        version=metadata.resource_version,
        finished=True,
        succeeded=True,
    )


def _unheeded_class(group: PodGroupObject | None, pods: Iterable[GangPod]) -> str:
    """Return the priority class of the pods if Volcano ignores it, else an empty text.

    Volcano takes the class of the PodGroup and ignores that of its pods (`Snapshot` in
    pkg/scheduler/cache/cache.go, v1.14).
    """
    if group is None or group.spec.priority_class_name:
        return ""
    return next((pod.priority_class for pod in pods if pod.priority_class), "")


def awaited_quota(
    gang_id: GangId, pods: Sequence[GangPod], context: GangContext
) -> MissingQuota | None:
    """Return why its scheduler does not admit the gang yet; None for a gang that may start."""
    missing_volume = (context.missing_volume(pod) for pod in pods if pod.gated and pod.claims)
    if text := next(filter(None, missing_volume), ""):
        return MissingQuota(text)
    key = pods[0].pod_group
    if key is None:
        return _awaited_group(pods[0], context)
    group = context.pod_group(pods[0])
    if group is None:
        return MissingQuota(f"its PodGroup {key[1]} is not there yet")
    asked = asked_gpus(gang_id, pods, group)
    missing = context.missing_quota(asked) if asked is not None else None
    if group.status.phase in LET_IN or (missing is not None and missing.never):
        return missing
    why = explanation(group.status.conditions)
    phase = group.status.phase or "not looked at yet"
    said = f": {why[:200]}" if why else ""
    return MissingQuota(f"its PodGroup is {phase} in queue {group.spec.queue}{said}")


def _awaited_group(first: GangPod, context: GangContext) -> MissingQuota | None:
    """Return that the PodGroup of Kubernetes is not there, without which no pod of it is tried."""
    above, key = first.composite_group, first.scheduling_group
    is_listed = above is not None and context.composite_groups() is not None
    if above is not None and is_listed and context.composite_group(first) is None:
        return MissingQuota(f"its CompositePodGroup {above[1]} is not there")
    if key is None or context.scheduling_groups() is None or context.scheduling_group(first):
        return None
    return MissingQuota(f"its PodGroup {key[1]} is not there yet")


def asked_gpus(
    gang_id: GangId, pods: Iterable[GangPod], group: PodGroupObject | None
) -> AskedGpus | None:
    """Return the GPUs that the gang's gated pods would take in their queue, None for none."""
    asking = [pod for pod in pods if pod.gated and pod.gpus]
    if group is None or not asking:
        return None
    return AskedGpus(
        gang=gang_id,
        queue=group.spec.queue,
        resource=asking[0].resource,
        gpus=sum([pod.gpus for pod in asking]),
    )
