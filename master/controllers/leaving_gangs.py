"""Gangs whose pods end one by one: what they free should be given away as a whole.

A job that ends or is deleted loses its pods one after the other, within some tenths of a second:
each kubelet tells of its own. Who places a job on the first nodes that are free breaks dragonflies
that are whole a moment later, and the next job finds the other halves.

    a job of two dragonflies ends: nodes 1, 3, 2, 4 are free after 0, 50, 100, 150 ms
    a job of two nodes in one switchbox waits → it gets nodes 1 and 3, of two dragonflies;
    150 ms later it gets nodes 1 and 2, and nodes 3 and 4 are a whole dragonfly again

So nothing new is placed while a gang has lost a pod within `QUIET_S` and has others that still have
their node. A pod that is lost and comes again looks the same, and costs the others as much once. It
ends with the last pod of the gang at once, and after `MOST_S` in any case: then `REST_S` are for
those who wait. O(1) for each pod.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import Key
from master.kube.reflector import StoreEvent
from master.kube.store import Grouped, updates
from topo.gangs.machine.gang import GangId

QUIET_S, MOST_S, REST_S = 0.5, 2.0, 0.5


@dataclass
class LeavingGangs:
    """The pods of gangs that have a node, and the gangs that lost one of them. One owner."""

    clock: Callable[[], float]
    _pods: Grouped[GangId, None] = field(default_factory=Grouped)
    _lost_s: dict[GangId, float] = field(default_factory=dict)
    """When each gang that is going lost a pod last."""
    _since_s: float = float("-inf")
    """When the first of those went that went without a rest between them."""
    _last_s: float = float("-inf")

    def follow(self, event: StoreEvent[ClusterPod]) -> None:
        """Read what the API server tells of pods; O(pods) for a list."""
        for key, pod in updates(event, self._pods.keys):
            self._see(key, pod)

    def is_any(self) -> bool:
        """Return whether a gang is going now, and what is new has to wait; O(such gangs)."""
        now_s = self.clock()
        for gang in [each for each, at_s in self._lost_s.items() if now_s - at_s >= QUIET_S]:
            del self._lost_s[gang]
        return bool(self._lost_s) and now_s - self._since_s < MOST_S

    def _see(self, key: Key, pod: ClusterPod | None) -> None:
        has_node = isinstance(pod, GangPod) and bool(pod.node) and not pod.finished
        gang = pod.gang_id if isinstance(pod, GangPod) and has_node else None
        before = self._pods.group_of(key)
        if gang == before:
            return
        if before is not None:
            self._lose(key, before)
        if gang is not None:
            self._pods.put(key, gang, None)

    def _lose(self, key: Key, gang: GangId) -> None:
        now_s = self.clock()
        had_rest = now_s - self._last_s >= QUIET_S + REST_S
        if had_rest or now_s - self._since_s >= MOST_S + REST_S:
            self._since_s = now_s
        self._last_s = now_s
        self._pods.drop(key)
        if gang not in self._pods:
            self._lost_s.pop(gang, None)
            return
        self._lost_s[gang] = now_s
