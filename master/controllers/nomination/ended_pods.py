"""The pods of gangs that have succeeded, or failed for good. Their ranks do not count as missing.

The store of pods follows unfinished pods only, because finished pods use no resources and may be
many. Of a pod of a gang that ended, `EndedPods` keeps the gang, the rank and the name. It takes
them from two stores: the store of pods reports a pod that just ended, with its last version, when
the pod leaves that store; the store of ended pods lists all of them, for a new leader too.
"""

from collections.abc import Callable, Iterable

from master.kube.gang_pod import ClusterPod, EndedPod, ended_pod
from master.kube.objects import Key
from master.kube.reflector import Removed, StoreEvent
from master.kube.store import Grouped, Store, updates
from topo.gangs.machine.gang import GangId


class EndedPods:
    """Pods that ended, by gang. Each of `marks` is called with a gang that changed. Mutable."""

    def __init__(
        self,
        pods: Store[ClusterPod],
        ended: Store[EndedPod],
        *marks: Callable[[GangId], None],
    ) -> None:
        self._marks = marks
        self._pods: Grouped[GangId, EndedPod] = Grouped()
        ended.subscribe(self._follow_ended)
        pods.subscribe(self._follow_pods)

    def of(self, gang_id: GangId) -> Iterable[EndedPod]:
        """Return the pods of a gang that succeeded, or failed and are not made again."""
        return self._pods.values(gang_id).values()

    def _follow_ended(self, event: StoreEvent[EndedPod]) -> None:
        for key, pod in updates(event, self._pods.keys):
            self._set(key, pod)

    def _follow_pods(self, event: StoreEvent[ClusterPod]) -> None:
        if not isinstance(event, Removed) or not event.object.finished:
            return
        last = ended_pod(event.object)
        if last.gang_id:
            self._set(event.key, last)

    def _set(self, key: Key, pod: EndedPod | None) -> None:
        before = self._pods.drop(key)
        if pod is not None:
            self._pods.put(key, pod.gang_id, pod)
        now = pod.gang_id if pod is not None else None
        for gang_id in dict.fromkeys(each for each in (before, now) if each is not None):
            for mark in self._marks:
                mark(gang_id)
