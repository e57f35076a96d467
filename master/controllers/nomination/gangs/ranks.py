"""The ranks of a gang's pods, and their order.

Most pods state their rank. A pod of a Deployment states none and gets the lowest that is free in
its gang; a pod that consumes a request for capacity gets the one of its name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from master.controllers.nomination.sources import Reservation
from master.kube.gang_pod import GangPod
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
    stated = [pod for pod in pods if pod.has_rank]
    staying = [pod for pod in found if not (pod.finished or pod.terminating)]
    # A gang that has not begun uses all ranks from 0 on, although a template may lack pods.
    has_begun = not all(pod.gated for pod in staying)
    firsts = [
        pod.stamp.rank_offset if has_begun and isinstance(pod.stamp, Stamp) else 0 for pod in found
    ]
    ranked = _with_ranks(found, firsts, stamp.pods_per_group, [pod.rank for pod in stated])
    return sorted((*stated, *ranked), key=_BY_RANK)


def ranked_as_consumers(pods: Iterable[GangPod], reservation: Reservation) -> list[GangPod]:
    """Return the pods of a request for capacity, which no job was stamped for, by rank.

    Any pods may consume one: of a Job without indices, of several jobs, of none. They are alike
    within a template, so that any order is right as long as it stays: that of their own index and
    name.
    """
    size = reservation.request.pods_per_group if reservation.request is not None else MAX_PODS
    found = sorted(pods, key=_BY_RANK)
    return sorted(_with_ranks(found, [0] * len(found), size, ()), key=_BY_RANK)


def _with_ranks(
    pods: Sequence[GangPod], firsts: Sequence[int], pods_per_group: int, taken: Sequence[int]
) -> list[GangPod]:
    """Return pods without numbers by their ranks; `firsts` are those of their templates.

    A pod that leaves gives its rank up, so that its replacement may get it.
    """
    staying, unranked, leaving = [], [], []
    for pod, first in zip(pods, firsts, strict=True):
        if pod.finished or pod.terminating:
            leaving.append(replace(pod, rank=0))
        else:
            staying.append(pod)
            unranked.append(Unranked(first_rank=first, group=_planned_group(pod)))
    ranks = assign_ranks(unranked, pods_per_group, taken)
    ranked = (replace(pod, rank=rank) for pod, rank in zip(staying, ranks, strict=True))
    return [*ranked, *leaving]


def _planned_group(pod: GangPod) -> int | None:
    return pod.note.group if pod.note is not None and not pod.note.withdrawn else None
