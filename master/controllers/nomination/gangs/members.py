"""The members of a gang: its pods, those that have succeeded, and those that are expected."""

from collections.abc import Iterator, Sequence

from master.controllers.nomination.gangs.context import GangContext
from master.kube.gang_pod import EndedPod, GangPod
from topo.gangs.machine.gang import GangId, Member, PodUid, expected_member
from topo.placement.job.request import Request

NEXT_S = 3600.0
"""How long the place of the next pod is kept where pods are made one by one: large models are
loaded for half an hour before a pod is ready."""


def gang_members(
    gang_id: GangId, ranked: Sequence[GangPod], request: Request, context: GangContext
) -> tuple[Member, ...]:
    """Return the members of a gang: its pods by rank, then those that ended or are expected."""
    ended = [_ended_member(pod) for pod in _ended_pods(ranked[0], context)]
    members = (*(member_of(pod) for pod in ranked if not pod.is_chooser), *ended)
    if not ranked[0].is_late or ended or not is_growing(ranked, context):
        return members
    return (*members, *_expected(gang_id, members, request))


def is_growing(ranked: Sequence[GangPod], context: GangContext) -> bool:
    """Return whether further pods may come of a gang whose pods are not made together; O(pods).

    One that is made pod by pod looks, once it was scaled in, as if it still grew. While it grows
    its pod of the highest rank is the newest, and it came after the one before.
    """
    live = [pod for pod in ranked if not (pod.finished or pod.terminating)]
    if not live or not live[-1].is_one_by_one:
        return True
    last_s = live[-1].created_s
    before_s = max((pod.created_s for pod in live[:-1]), default=last_s)
    return max(last_s - before_s, context.clock() + context.ahead_s - last_s) < NEXT_S


def _expected(gang_id: GangId, members: Sequence[Member], request: Request) -> Iterator[Member]:
    """Yield a member for each rank without a pod, of a gang whose pods are not made together.

    Once a pod has succeeded, the pod of a missing rank may have, too, so that nothing is kept.
    """
    there = {member.rank for member in members if member.live}
    return (expected_member(gang_id, rank) for rank in range(request.pods) if rank not in there)


def member_of(pod: GangPod) -> Member:
    """Return a pod as a member of its gang."""
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
        lacks_cost=pod.lacks_cost,
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
