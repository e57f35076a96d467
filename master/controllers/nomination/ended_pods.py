"""The pods of gangs that have succeeded. Their ranks do not count as missing.

The store of pods follows unfinished pods only, because finished pods use no resources and may be
many. Of a pod of a gang that succeeded, `EndedPods` keeps the gang, the rank and the name. It takes
them from two stores: the store of pods reports a pod that just ended, with its last version, when
the pod leaves that store; the store of ended pods lists all of them, for a new leader too.
"""

from collections.abc import Callable, Iterable

from master.kube.gang_pod import ClusterPod, EndedPod, ended_pod
from master.kube.objects import SUCCEEDED_PHASE, Key
from master.kube.reflector import Listed, Removed, StoreEvent
from master.kube.store import Store
from topo.gangs.machine.gang import GangId


class EndedPods:
    """Pods that succeeded, by gang. Each of `marks` is called with a gang that changed. Mutable."""

    def __init__(
        self,
        pods: Store[ClusterPod],
        ended: Store[EndedPod],
        *marks: Callable[[GangId], None],
    ) -> None:
        self._marks = marks
        self._gang_of: dict[Key, GangId] = {}
        self._by_gang: dict[GangId, dict[Key, EndedPod]] = {}
        ended.subscribe(self._follow_ended)
        pods.subscribe(self._follow_pods)

    def of(self, gang_id: GangId) -> Iterable[EndedPod]:
        """Return the pods of a gang that succeeded."""
        return self._by_gang.get(gang_id, {}).values()

    def _follow_ended(self, event: StoreEvent[EndedPod]) -> None:
        if isinstance(event, Listed):
            for key in [each for each in self._gang_of if each not in event.objects]:
                self._drop(key)
            for key, pod in event.objects.items():
                self._put(key, pod)
        elif isinstance(event, Removed):
            self._drop(event.key)
        else:
            self._put(event.key, event.object)

    def _follow_pods(self, event: StoreEvent[ClusterPod]) -> None:
        if not isinstance(event, Removed) or event.object.phase != SUCCEEDED_PHASE:
            return
        last = ended_pod(event.object)
        if last.gang_id:
            self._put(event.key, last)

    def _put(self, key: Key, pod: EndedPod) -> None:
        self._drop(key)
        self._gang_of[key] = pod.gang_id
        self._by_gang.setdefault(pod.gang_id, {})[key] = pod
        self._mark(pod.gang_id)

    def _mark(self, gang_id: GangId) -> None:
        for mark in self._marks:
            mark(gang_id)

    def _drop(self, key: Key) -> None:
        gang_id = self._gang_of.pop(key, None)
        if gang_id is None:
            return
        pods = self._by_gang[gang_id]
        del pods[key]
        if not pods:
            del self._by_gang[gang_id]
        self._mark(gang_id)
