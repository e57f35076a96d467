"""The pods whose groups Kueue has to keep whole, as each master follows them."""

from typing import NamedTuple

from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import Key
from master.kube.reflector import StoreEvent
from master.kube.store import Grouped, Store, updates
from topo.gangs.machine.gang import GangId
from topo.gangs.stamp import Stamp
from topo.gangs.terms import GroupTerms
from topo.placement.job.request import PlacementMode


class _Standing(NamedTuple):
    """Where a pod of a Workload is on its way: it has a node and stays there, or it ends."""

    runs: bool
    ends: bool


class NativePods:
    """Native pods of Kueue with required groups, by their gang and by their Workload.

    A pod that is being deleted is there until it is gone. Mutable; follows the store of pods.
    """

    def __init__(self, pods: Store[ClusterPod]) -> None:
        self._pods, self._groups = pods, Grouped[GangId, int]()
        self._workloads = Grouped[Key, _Standing]()
        pods.subscribe(self._follow)

    def group(self, gang: GangId) -> int | None:
        """Return the pods of a group of a gang; 0 if it has no such pods, None if that is unknown.

        O(1).
        """
        sizes = self._groups.values(gang).values()
        return next(iter(sizes), 0) if self._pods.synced else None

    def has_old_pods(self, namespace: str, workload: str) -> bool | None:
        """Return whether pods of a Workload end while none of it runs; None if that is unknown.

        O(pods of the Workload).
        """
        found = self._workloads.values((namespace, workload)).values()
        is_old = any(each.ends for each in found) and not any(each.runs for each in found)
        return is_old if self._pods.synced else None

    def _follow(self, event: StoreEvent[ClusterPod]) -> None:
        for key, pod in updates(event, tuple(self._groups.keys)):
            self._groups.drop(key)
            self._workloads.drop(key)
            if not isinstance(pod, GangPod) or not (size := _group_size(pod)):
                continue
            self._groups.put(key, pod.gang_id, size)
            if pod.workload:
                runs = pod.node is not None and not pod.terminating
                standing = _Standing(runs, pod.terminating)
                self._workloads.put(key, (pod.metadata.namespace, pod.workload), standing)


def _group_size(pod: GangPod) -> int:
    """Return the pods of the group of a pod while Kueue reads its index; 0 if it does not."""
    if pod.finished or pod.owner is None:
        return 0
    terms, stamp, is_of_kueue = pod.terms, pod.stamp, pod.is_native and pod.is_of_kueue
    if not is_of_kueue or not isinstance(terms, GroupTerms) or not isinstance(stamp, Stamp):
        return 0
    is_required = terms.mode is PlacementMode.REQUIRED
    return min(stamp.pods, stamp.pods_per_group) if is_required else 0
