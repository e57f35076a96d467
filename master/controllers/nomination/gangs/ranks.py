"""The ranks of a gang's pods, and their order.

Most pods state their rank. A pod of a Deployment states none and gets the lowest that is free in
its gang; a pod that consumes a request for capacity gets the one of its name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from master.controllers.nomination.sources import Reservation
from master.kube.gang_pod import GangPod
from topo.gangs.consumers import Consumer, consumer_ranks
from topo.gangs.ranks import Unranked, assign_ranks
from topo.gangs.stamp import Stamp
from topo.model.limits import MAX_PODS

_BY_RANK = attrgetter("rank", "metadata.name")
_BY_ORDER = attrgetter("rank", "created_s", "metadata.name")


def first_of(pods: Iterable[GangPod]) -> GangPod | None:
    """Return the pod of the lowest rank, which carries the gang's status; None without pods."""
    return min(pods, key=_BY_RANK, default=None)


def ranked_pods(pods: Sequence[GangPod]) -> list[GangPod]:
    """Return the pods by rank; pods that state no rank get one."""
    stamp = pods[0].stamp
    if all(pod.has_rank for pod in pods) or not isinstance(stamp, Stamp):
        return sorted(pods, key=_BY_RANK)
    found = sorted((pod for pod in pods if not pod.has_rank), key=_BY_ORDER)
    leaving = [pod for pod in found if pod.finished or pod.terminating]
    staying = [pod for pod in found if not (pod.finished or pod.terminating)]
    unranked = [_unranked(pod) for pod in staying]
    if all(pod.gated for pod in staying):
        # A gang that has not begun uses all ranks from 0 on, although a template may lack pods.
        unranked = [replace(pod, first_rank=0) for pod in unranked]
    stated = [pod for pod in pods if pod.has_rank]
    ranks = assign_ranks(unranked, stamp.pods_per_group, [pod.rank for pod in stated])
    # A pod that leaves gives its rank up, so that its replacement may get it.
    pairs = [*zip(staying, ranks, strict=True), *((pod, 0) for pod in leaving)]
    return sorted((*stated, *(replace(pod, rank=rank) for pod, rank in pairs)), key=_BY_RANK)


def _unranked(pod: GangPod) -> Unranked:
    is_placed = pod.note is not None and not pod.note.withdrawn
    return Unranked(
        first_rank=pod.stamp.rank_offset if isinstance(pod.stamp, Stamp) else 0,
        group=pod.note.group if pod.note is not None and is_placed else None,
    )


def ranked_as_consumers(pods: Iterable[GangPod], reservation: Reservation) -> list[GangPod]:
    """Return the pods of a request for capacity, which no job was stamped for, by rank."""
    size = reservation.request.pods_per_group if reservation.request is not None else MAX_PODS
    ranks = consumer_ranks(
        (
            Consumer(pod.metadata.uid, pod.metadata.name, pod.rank, _noted_group(pod))
            for pod in pods
        ),
        size,
    )
    return sorted((replace(pod, rank=ranks[pod.metadata.uid]) for pod in pods), key=_BY_RANK)


def _noted_group(pod: GangPod) -> int | None:
    return pod.note.group if pod.note is not None else None
