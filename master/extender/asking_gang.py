"""Which pods ask through their scheduler where their group goes, and how many their gang has."""

from collections.abc import Sequence

from master.kube.gang_pod import GangPod
from topo.gangs.extender.needs import UNSTATED_S
from topo.gangs.stamp import Stamp
from topo.gangs.terms import GroupTerms
from topo.model.errors import Refusal
from topo.model.limits import MAX_PODS_AHEAD


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


def gang_pods(live: Sequence[GangPod], age_s: float) -> int | None:
    """Return how many pods a gang has; None where that is not known. O(pods).

    It is what its pods state, if so many can be placed at once; where they state nothing, what was
    seen of it, once its newest pod is `age_s` old and none followed.
    """
    stamp = live[0].stamp if live else None
    if isinstance(stamp, Stamp):
        return stamp.pods if stamp.pods <= MAX_PODS_AHEAD else None
    return max(pod.rank for pod in live) + 1 if live and age_s >= UNSTATED_S else None
