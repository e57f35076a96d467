"""The members of a gang: its pods, those that have succeeded, and those that are expected."""

from collections.abc import Iterator, Sequence

from master.controllers.nomination.gangs.context import GangContext
from master.kube.gang_pod import EndedPod, GangPod
from topo.gangs.machine.gang import GangId, Member, PodUid, expected_member
from topo.placement.job.request import Request


def gang_members(
    gang_id: GangId, ranked: Sequence[GangPod], request: Request, context: GangContext
) -> tuple[Member, ...]:
    """Return the members of a gang: its pods by rank, then those that ended or are expected."""
    ended = [_ended_member(pod) for pod in _ended_pods(ranked[0], context)]
    members = (*map(_member, ranked), *ended)
    if not ranked[0].is_late or ended:
        return members
    return (*members, *_expected(gang_id, members, request))


def _expected(gang_id: GangId, members: Sequence[Member], request: Request) -> Iterator[Member]:
    """Yield a member for each rank without a pod, of a gang whose pods are not made together.

    Once a pod has succeeded, the pod of a missing rank may have, too, so that nothing is kept.
    """
    there = {member.rank for member in members if member.live}
    return (expected_member(gang_id, rank) for rank in range(request.pods) if rank not in there)


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


def _ended_pods(first: GangPod, context: GangContext) -> Iterator[EndedPod]:
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
