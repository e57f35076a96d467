"""The members of a gang: its pods, those that have succeeded, and those that are expected."""

from collections.abc import Collection, Iterator, Sequence
from math import inf

from master.controllers.nomination.gangs.context import GangContext
from master.kube.gang_pod import EndedPod, GangPod
from topo.gangs.machine.gang import Gang, GangId, Member, PodUid

AHEAD_S = 3600.0
"""How long places are kept for further pods after the newest one, or after they were booked: large
models are loaded for half an hour before a pod is ready, and the next ones are made then."""


def present_members(ranked: Sequence[GangPod], context: GangContext) -> tuple[Member, ...]:
    """Return the members of a gang that are there: its pods by rank, then those that ended."""
    found = _ended_pods(ranked[0], context)
    ended = (_ended_member(pod) for pod in found if not pod.failed)
    return (*(member_of(pod) for pod in ranked if not pod.is_chooser), *ended)


def lacking_ranks(gang: Gang, ranked: Sequence[GangPod]) -> Collection[int]:
    """Return the ranks without a pod of a gang whose pods are not made together; O(pods).

    Once a pod has succeeded, the pod of a missing rank may have, too, so that none is lacking.
    """
    if not ranked[0].is_late or any(member.succeeded for member in gang.members):
        return ()
    there = {member.rank for member in gang.members if member.live} | gang.ended | gang.later
    return [rank for rank in range(gang.request.pods) if rank not in there]


def kept_until_s(gang_id: GangId, ranked: Sequence[GangPod], context: GangContext) -> float:
    """Return until when places are kept for further pods of a gang, on the master's clock.

    A gang whose gates are all on waits for its turn, keeps nothing yet, and nobody makes its next
    pods: its time has not begun. Then it is that of its newest pod, or that of the booking of the
    places, which may be later; both are facts that the next leader reads. O(pods).

    One that is made pod by pod and whose job cannot be read looks, once it was scaled in, as if it
    still grew. While it grows its pod of the highest rank is the newest, and it came after the one
    before.
    """
    live = [pod for pod in ranked if not (pod.finished or pod.terminating)]
    if live and all(pod.gated for pod in live):
        return inf
    newest_s = max(pod.created_s for pod in live or ranked)
    if live and live[-1].is_one_by_one:
        last_s = live[-1].created_s
        before_s = max((pod.created_s for pod in live[:-1]), default=last_s)
        newest_s = last_s if last_s - before_s < AHEAD_S else -inf
    return max(newest_s - context.ahead_s + AHEAD_S, context.booked_until_s(gang_id))


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
        is_tried=pod.is_tried,
        unscheduled=pod.unscheduled,
        terminating=pod.terminating,
        finished=pod.finished,
        lacks_cost=pod.lacks_cost,
        gpus=pod.gpus,
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
