"""Which pods ask through their scheduler where their group goes, and which more are awaited."""

from collections.abc import Sequence

from master.kube.gang_pod import GangPod
from topo.gangs.extender.needs import UNSTATED_S, AbsentRanks, absent_at
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


def stated_pods(live: Sequence[GangPod]) -> int | None:
    """Return how many pods a gang has; None where its pods do not state it, or state more than can
    be placed at once. O(1).
    """
    stamp = live[0].stamp if live else None
    if not isinstance(stamp, Stamp) or stamp.pods > MAX_PODS_AHEAD:
        return None
    return stamp.pods


def absent_of(live: Sequence[GangPod], age_s: float) -> AbsentRanks:
    """Return for which ranks without a pod a gang keeps nodes, `age_s` after its newest pod.

    For none where nobody states how many pods come and no further one came for a while: such ranks
    may have finished, and no pod may ever have them. O(1).
    """
    is_stated = bool(live) and isinstance(live[0].stamp, Stamp)
    return absent_at(age_s) if is_stated or age_s < UNSTATED_S else AbsentRanks.NONE
