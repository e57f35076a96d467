"""The jobs that have pods whose groups Kueue has to keep whole; every master follows them."""

from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.reflector import StoreEvent
from master.kube.store import Grouped, Store, updates
from topo.gangs.machine.gang import GangId
from topo.gangs.stamp import Stamp
from topo.gangs.terms import GroupTerms
from topo.placement.job.request import PlacementMode


class NativePods:
    """Native pods of Kueue with required groups, by the uid of their job.

    A pod that is being deleted is there until it is gone. Mutable; follows the store of pods.
    """

    def __init__(self, pods: Store[ClusterPod]) -> None:
        self._pods, self._groups = pods, Grouped[GangId, int]()
        pods.subscribe(self._follow)

    def group(self, uid: str) -> int | None:
        """Return the pods of a group of a job; 0 if it has no such pods, None if that is unknown.

        O(1).
        """
        sizes = self._groups.values(GangId(uid)).values()
        return next(iter(sizes), 0) if self._pods.synced else None

    def _follow(self, event: StoreEvent[ClusterPod]) -> None:
        for key, pod in updates(event, tuple(self._groups.keys)):
            if pod is not None and (size := _group_size(pod)):
                self._groups.put(key, pod.gang_id, size)
            else:
                self._groups.drop(key)


def _group_size(pod: ClusterPod) -> int:
    """Return the pods of the group of a pod while Kueue reads its index; 0 if it does not."""
    if not isinstance(pod, GangPod) or pod.finished or pod.owner is None:
        return 0
    terms, stamp, is_of_kueue = pod.terms, pod.stamp, pod.is_native and pod.is_of_kueue
    if not is_of_kueue or not isinstance(terms, GroupTerms) or not isinstance(stamp, Stamp):
        return 0
    is_required = terms.mode is PlacementMode.REQUIRED
    return min(stamp.pods, stamp.pods_per_group) if is_required else 0
