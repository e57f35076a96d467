"""The order in which a Deployment's pods go when it is scaled in: whole groups, the last first.

    annotation controller.kubernetes.io/pod-deletion-cost: "-3"    on the pods of group 3

Result: a cost for each pod that is opened. A ReplicaSet deletes bound and ready pods by their
cost, the lowest first; without one it takes them by age and by their number on a node, from as many
groups as it deletes pods. Groups on hybrid nodes go before the others: the pool that both kinds of
jobs share is the first that a service gives back.

Why it is right. All pods of a group have one cost, and no two groups have the same one, so that of
all groups at most one is left in part.

Cost: O(pods).

Example, groups of two; group 1 has a node of the hybrid pool.
    pods of group 0, 1, 2    → 0, -1000001, -2
    scaled in by 2 pods      → group 1 goes; by 4 pods → groups 1 and 2

Source: getPodsToDelete, pkg/controller/replicaset, and ActivePodsWithRanks.Less,
pkg/controller/controller_utils.go, k8s.io/kubernetes v1.37. The annotation is an int32.
"""

from collections.abc import Callable, Iterable

from topo.gangs.machine.gang import PodUid
from topo.gangs.machine.instructions import Open, PodInstruction
from topo.model.ids import NodeName
from topo.model.limits import MAX_PODS

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_BEFORE_ALL = MAX_PODS


def deletion_costs(
    asked: Iterable[PodInstruction], is_hybrid: Callable[[NodeName], bool]
) -> dict[PodUid, int]:
    """Return the cost of each pod of a gang that is opened now and lacks one."""
    opened = [each for each in asked if isinstance(each, Open) and each.pod.lacks_cost]
    hybrid = {each.note.group for each in opened if is_hybrid(each.note.node)}
    return {
        each.pod.uid: -each.note.group - _BEFORE_ALL * (each.note.group in hybrid)
        for each in opened
    }
