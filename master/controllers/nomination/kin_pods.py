"""Where pods of parts of jobs are, which keep each other out of domains of nodes.

kube-scheduler judges a pod's anti-affinity, and that of the pods that run against it, by the pods
that it knows on nodes: so those without GPUs count, too, and those that are being deleted.
"""

from collections.abc import Callable, Iterator

from master.kube.gang_pod import ClusterPod
from master.kube.reflector import StoreEvent
from master.kube.store import Grouped, Store, updates
from topo.gangs.machine.gang import GangId
from topo.gangs.machine.instructions import Occupied
from topo.placement.job.request import Kin


class KinPods:
    """Pods of parts, by their kin. Mutable; follows the store of pods.

    `on_gone` is called when one that takes no GPUs may have left a node, which frees no GPU and may
    yet free a domain.
    """

    def __init__(self, pods: Store[ClusterPod]) -> None:
        self._pods: Grouped[Kin, ClusterPod] = Grouped()
        self.on_gone: list[Callable[[], None]] = []
        pods.subscribe(self._follow)

    def occupied(self, kin: Kin, but: GangId) -> Iterator[Occupied]:
        """Yield where the pods of a kin are, but for those of one gang; O(pods of the kin)."""
        for pod in self._pods.values(kin).values():
            if pod.gang_id != but and pod.part is not None and (node := pod.takes_of) is not None:
                yield Occupied(node, pod.part.label)

    def _follow(self, event: StoreEvent[ClusterPod]) -> None:
        for key, pod in updates(event, self._pods.keys):
            kin = self._pods.group_of(key)
            before = self._pods.values(kin).get(key) if kin is not None else None
            self._pods.drop(key)
            if pod is not None and pod.part is not None:
                self._pods.put(key, pod.part.kin, pod)
            if before is not None and not before.gpus and (pod is None or pod.takes_of is None):
                for each in self.on_gone:
                    each()
