"""Where pods of parts of jobs are, which keep each other out of domains of nodes.

kube-scheduler judges a pod's anti-affinity, and that of the pods that run against it, by the pods
that it knows on nodes: so those without GPUs count, too, and those that are being deleted.
"""

from collections.abc import Callable, Iterator

from master.kube.gang_pod import ClusterPod
from master.kube.reflector import StoreEvent
from master.kube.store import Grouped, Store, updates
from topo.gangs.job_kinds.kinds import MOST_KINS
from topo.gangs.machine.gang import GangId
from topo.gangs.machine.instructions import Occupied
from topo.placement.job.request import Kin


class KinPods:
    """Pods of parts, by their kin. Mutable; follows the store of pods.

    `borne_out` returns a pod as it counts: by a plan only where a fact bears that out. `on_gone` is
    called when one that takes no GPUs may have left a node, which frees no GPU and may yet free a
    domain.
    """

    def __init__(
        self,
        pods: Store[ClusterPod],
        borne_out: Callable[[ClusterPod], ClusterPod] = lambda pod: pod,
    ) -> None:
        self._borne_out = borne_out
        self._pods = tuple(Grouped[Kin, ClusterPod]() for _ in range(MOST_KINS))
        """By the first kin of each pod, then by the next."""
        self.on_gone: list[Callable[[], None]] = []
        pods.subscribe(self._follow)

    def occupied(self, kin: Kin, but: GangId) -> Iterator[Occupied]:
        """Yield where the pods of a kin are, but for those of one gang; O(pods of the kin)."""
        for at, pods in enumerate(self._pods):
            for pod in pods.values(kin).values():
                if pod.gang_id == but:
                    continue
                if (node := self._borne_out(pod).takes_of) is not None:
                    yield Occupied(node, pod.parts[at].label)

    def _follow(self, event: StoreEvent[ClusterPod]) -> None:
        first = self._pods[0]
        for key, pod in updates(event, first.keys):
            kin = first.group_of(key)
            before = first.values(kin).get(key) if kin is not None else None
            for pods in self._pods:
                pods.drop(key)
            if pod is not None:
                for pods, part in zip(self._pods, pod.parts, strict=False):
                    pods.put(key, part.kin, pod)
            if before is not None and not before.gpus and (pod is None or pod.takes_of is None):
                for each in self.on_gone:
                    each()
