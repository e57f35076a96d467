"""Which pods ask through their scheduler where their group goes, and which more are awaited."""

from collections import Counter
from collections.abc import Iterable, Sequence

from master.kube.gang_pod import GangPod
from topo.gangs.extender.needs import UNSTATED_S, AbsentRanks, absent_at
from topo.gangs.stamp import Stamp
from topo.gangs.terms import GroupTerms
from topo.model.errors import Refusal
from topo.model.limits import MAX_PODS_AHEAD

FEW_GROUPS = 8
"""Groups of a job that are placed without room for a whole group each."""


def asks(pod: GangPod) -> bool:
    """Return whether the pod's scheduler has to be told where its group goes.

    No gate, no other controller and no scheduler without extenders decides about it.
    """
    is_of_volcano = pod.pod_group is not None or pod.is_native
    is_gated = pod.gated or pod.other_gates
    is_decided = is_of_volcano or is_gated or pod.note is not None or pod.fixed is not None
    return (
        isinstance(pod.terms, GroupTerms)
        and pod.gpus > 0
        and pod.owner is not None
        and pod.ungrouped is None
        and not isinstance(pod.stamp, Refusal)
        and not is_decided
    )


def has_ranks(live: Sequence[GangPod]) -> bool:
    """Return whether no two pods have one rank; pods of a Job that is not Indexed all have 0."""
    return len({pod.rank for pod in live}) == len(live)


def stated_pods(live: Sequence[GangPod]) -> int | None:
    """Return how many pods a gang has; None where its pods do not state it, or state more than can
    be placed at once. O(1).
    """
    stamp = live[0].stamp if live else None
    if not isinstance(stamp, Stamp) or stamp.pods > MAX_PODS_AHEAD:
        return None
    return stamp.pods


def is_all_there(live: Sequence[GangPod], age_s: float) -> bool:
    """Return whether no pod is awaited of a gang that does not state its size, `age_s` after its
    newest pod. O(1).

    A rank without a pod may have finished, and no pod may ever have it.
    """
    return bool(live) and not isinstance(live[0].stamp, Stamp) and age_s >= UNSTATED_S


def absent_of(live: Sequence[GangPod], age_s: float) -> AbsentRanks:
    """Return for which ranks without a pod a gang keeps nodes, `age_s` after its newest pod."""
    return AbsentRanks.NONE if is_all_there(live, age_s) else absent_at(age_s)


def group_sizes(ranks: Iterable[int], group_pods: int) -> tuple[tuple[int, int], ...]:
    """Return the pods of groups that are not whole, as (group, pods); O(ranks).

    Empty where they are more than `FEW_GROUPS`, each of which is a search of its own.
    """
    found = Counter(rank // group_pods for rank in ranks)
    small = tuple((group, pods) for group, pods in found.items() if pods < group_pods)
    return small if len(small) <= FEW_GROUPS else ()
