"""Pods and their context → one gang.

A gang is the pods of one controller, or of one PodGroup of Kubernetes, that the admission webhook
stamped. The stamp on each pod describes the whole gang; how large it is now its job says (`size`).
PodGroup and Queue are read, because they decide whether Volcano admits a gang, and PodGroups of
Kubernetes (scheduling groups here), because they decide how kube-scheduler binds it.

Every gate must be opened eventually. So a gated pod whose gang cannot be determined is a gang of
its own that is *ungated*: its gate is opened and it is scheduled without a plan.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

from master.controllers.nomination.gangs.context import GangContext, Lacking
from master.controllers.nomination.gangs.members import (
    kept_until_s,
    lacking_ranks,
    member_of,
    present_members,
)
from master.controllers.nomination.gangs.ranks import ranked_as_consumers, ranked_pods
from master.controllers.nomination.gangs.request import stated_request
from master.controllers.nomination.gangs.size import ranks_without_pods
from master.controllers.nomination.gangs.start_conditions import awaited_quota
from master.controllers.nomination.queues.quota import MissingQuota
from master.controllers.nomination.sources import Reservation
from master.kube.dra.counts import with_devices
from master.kube.gang_pod import GangPod
from master.kube.schedulers.volcano import PodGroupObject
from topo.gangs.annotation_keys import is_workload
from topo.gangs.machine.gang import Binding, Gang, GangId, expected_member
from topo.gangs.stamp import Stamp
from topo.gangs.terms import GroupTerms
from topo.model.conditions.gang_states import GangState
from topo.model.pod_requests import Amounts, most_of
from topo.placement.job.request import Request


def build_gang(gang_id: GangId, pods: Sequence[GangPod], context: GangContext) -> Gang:
    """Return the gang of these pods (at least one); O(pods), plus `eligibility_of`."""
    ranked = ranked_pods(pods)
    reservation = _reservation(ranked, context)
    if reservation is not None and ranked[0].stamp is None:
        ranked = ranked_as_consumers(ranked, reservation)
    first, choosers = ranked[0], [pod for pod in ranked if pod.is_chooser]
    placed = [pod for pod in ranked if not pod.is_chooser]
    group = context.pod_group(first)
    stated = stated_request(ranked, group, reservation, context)
    no_plan = stated if isinstance(stated, str) else ""
    # A gang that cannot be placed still needs a request; it is opened without a plan.
    unplanned = Request(pods=len(placed) or 1, gpus_per_pod=1)
    request = unplanned if isinstance(stated, str) else stated
    awaits = awaited_quota(gang_id, ranked, context) or _awaited_booking(reservation)
    kind, name = gang_name(first)
    unmade = ranks_without_pods(ranked, context.ended(gang_id), context)
    gang = Gang(
        id=gang_id,
        namespace=first.metadata.namespace,
        name=name,
        kind=kind,
        ended=unmade.ended,
        later=unmade.later,
        binding=_binding(first, context),
        request=request,
        at_least=_at_least(first, group, request, context),
        priority=max([pod.priority for pod in pods]),
        created_s=min([pod.created_s for pod in pods]) - context.ahead_s,
        members=present_members(ranked, context),
        choosers=tuple(map(member_of, choosers)),
        awaits=awaits.text if awaits is not None else "",
        hopeless=awaits is not None and awaits.never,
        ungated=context.ungated.get(gang_id) or _opened_without_plan(ranked) or no_plan,
        wait_s=first.terms.wait_s if isinstance(first.terms, GroupTerms) else None,
        aside_s=_aside_s(pods, context),
        preempts=all(pod.may_preempt for pod in pods),
        unheeded_class=_unheeded_class(group, pods),
        takes=_most(placed, context),
        fewest_gpus=_fewest_gpus(placed),
        by_links=first.by_links,
        is_of_kueue=first.is_of_kueue,
        is_elastic=first.is_elastic,
        labelled=context.labelled(gang_id),
        holds=context.holds(gang_id),
        booked=(reservation.hold,) if reservation is not None and reservation.hold else (),
    )
    return _within_budget(gang, ranked, context)


def _within_budget(gang: Gang, ranked: Sequence[GangPod], context: GangContext) -> Gang:
    """Return the gang with the pods that are expected, as its namespace may have them.

    Without a budget for their places a gang waits; one that has begun goes on with the pods that it
    has. What may not be kept is not even made: one pod may state thousands of others.
    """
    lacking = lacking_ranks(gang, ranked)
    until_s = kept_until_s(gang.id, ranked, context) if lacking else -inf
    if context.clock() >= until_s:
        lacking = ()
    why = context.beyond_budget(gang, ranked, Lacking(len(lacking), until_s))
    if not why:
        expected = (expected_member(gang.id, rank) for rank in lacking)
        return replace(gang, members=(*gang.members, *expected)) if lacking else gang
    if all(member.gated for member in (*gang.members, *gang.choosers) if member.live):
        return replace(gang, awaits=gang.awaits or why)
    return gang


def outline_gang(gang_id: GangId, pods: Sequence[GangPod], context: GangContext) -> Gang:
    """Return as much of a gang as can always be read: its pods, labels and holds; O(pods).

    For a gang whose reading raised an error: it is shown, and its gates can be opened.
    """
    first = min(pods, key=lambda pod: (pod.rank, pod.metadata.name))
    kind, name = gang_name(first)
    return Gang(
        id=gang_id,
        namespace=first.metadata.namespace,
        name=name,
        kind=kind,
        binding=Binding.PIECEMEAL,
        request=Request(pods=len(pods), gpus_per_pod=1),
        at_least=len(pods),
        priority=0,
        created_s=min(pod.created_s for pod in pods) - context.ahead_s,
        members=tuple(map(member_of, pods)),
        aside_s=_aside_s(pods, context),
        labelled=context.labelled(gang_id),
        holds=context.holds(gang_id),
    )


def _aside_s(pods: Sequence[GangPod], context: GangContext) -> float | None:
    """Return since when a leader has set the gang aside, as its pods say; None if none says so."""
    told = (pod.reported for pod in pods)
    times = [each.at_s for each in told if each and each.state is GangState.UNREADABLE]
    return min(times) - context.ahead_s if times else None


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


def _awaited_booking(reservation: Reservation | None) -> MissingQuota | None:
    """Return why the gang waits for what is booked for it; None where it does not."""
    if reservation is None or not reservation.awaits:
        return None
    return MissingQuota(reservation.awaits)


def _opened_without_plan(pods: Iterable[GangPod]) -> str:
    """Return why a gate of the gang was opened without a plan, which holds for all of its pods."""
    return next((pod.unplanned for pod in pods if pod.unplanned), "")


def gang_name(first: GangPod) -> tuple[str, str]:
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


def _at_least(
    first: GangPod, group: PodGroupObject | None, request: Request, context: GangContext
) -> int:
    """Return how many pods of the gang have to start together."""
    if first.is_elastic:
        return 1
    if first.job is not None or first.is_late:
        # Its pods have several PodGroups, each of a part of them; or those of a group come late,
        # whichever their ranks, and nothing of it starts without places for them.
        return request.pods
    least = group.spec.min_member if group is not None else _min_count(first, context)
    return min(least or request.pods, request.pods)


def _min_count(first: GangPod, context: GangContext) -> int:
    if first.composite_group is not None:
        return first.stamp.pods if isinstance(first.stamp, Stamp) else 0
    group = context.scheduling_group(first)
    return group.min_count if group is not None and group.is_gang else 0


def _fewest_gpus(pods: Sequence[GangPod]) -> int:
    """Return the GPUs of the smallest pod where pods differ; else 0."""
    gpus = {pod.gpus for pod in pods}
    return min(gpus) if len(gpus) > 1 else 0


def _most(pods: Iterable[GangPod], context: GangContext) -> Amounts:
    """Return the most that any of the pods takes of each resource beside GPUs."""
    return most_of([with_devices(pod.takes, context.devices(pod)) for pod in pods])


def _unheeded_class(group: PodGroupObject | None, pods: Iterable[GangPod]) -> str:
    """Return the priority class of the pods if Volcano ignores it, else an empty text.

    Volcano takes the class of the PodGroup and ignores that of its pods (`Snapshot` in
    pkg/scheduler/cache/cache.go, v1.14).
    """
    if group is None or group.spec.priority_class_name:
        return ""
    return next((pod.priority_class for pod in pods if pod.priority_class), "")
