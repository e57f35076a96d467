"""What is on its way for each gang: its own writes until the cluster tells of them, pods to come.

A large gang changes pod by pod and is read whole, and nothing follows from half of what was asked.
So it is read once all of it is there; what others do to it meanwhile is seen `LATE_S` later.
"""

from collections.abc import Callable, Iterator, Mapping

from master.kube.objects import Key, KubeObject
from master.kube.writing.writer import Settled
from topo.gangs.machine.gang import Gang, GangId

LATE_S = 0.5
"""A gang that changed is read so long after the last time, whatever is on its way."""


class InflightWrites:
    """Pods and nodes that were written for gangs, by their keys; mutable, of one controller."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Drop everything, before a new term."""
        self._left: dict[GangId, dict[Key, None]] = {}
        self._writers: dict[Key, dict[GangId, None]] = {}
        self._read_s: dict[GangId, float] = {}
        self._to_come: dict[GangId, int] = {}
        self._stale: dict[Key, tuple[GangId, str]] = {}

    def wrote(self, gang_id: GangId, key: Key) -> None:
        """A pod, or a node, is being written."""
        self._left.setdefault(gang_id, {})[key] = None
        self._writers.setdefault(key, {})[gang_id] = None

    def came(self, key: Key) -> None:
        """The cluster told of it, or nothing will come of the write."""
        for gang_id in self._writers.pop(key, ()):
            self._left[gang_id].pop(key)
            if not self._left[gang_id]:
                del self._left[gang_id]

    def settled(self, settled: Settled, known: Mapping[Key, KubeObject]) -> None:
        """A write came to its end: one that was refused or changed nothing shows in no event."""
        now, key = settled.metadata, (settled.write.target.namespace, settled.write.target.name)
        there = known[key].metadata if key in known else None
        if now is None or (there and there.resource_version == now.resource_version):
            self.came(key)

    def read(self, gang: Gang) -> None:
        """The gang was read."""
        self._read_s[gang.id] = self._clock()
        self._to_come[gang.id] = gang.request.pods

    def forget(self, gang_id: GangId) -> None:
        """It is gone."""
        self._read_s.pop(gang_id, None)
        self._to_come.pop(gang_id, None)
        for key in self._left.pop(gang_id, ()):
            del self._writers[key][gang_id]

    def is_awaited(self, gang_id: GangId, pods: int) -> bool:
        """Whether more of the gang, of which so many pods are there, comes by itself soon."""
        read_s = self._read_s.get(gang_id)
        if read_s is None or self._clock() - read_s >= LATE_S:
            return False
        return gang_id in self._left or pods < self._to_come[gang_id]

    def refused(self, gang_id: GangId, key: Key, version: str) -> None:
        """The API server does not have the pod in the version that a write named."""
        self._stale[key] = gang_id, version

    def renewed(self, known: Mapping[Key, KubeObject]) -> Iterator[GangId]:
        """Gangs of pods that are gone or are seen in another version than the one refused.

        A version that only grew is told to nobody: who waits for it has to look.
        """
        for key, (gang_id, version) in list(self._stale.items()):
            if key not in known or known[key].metadata.resource_version != version:
                del self._stale[key]
                yield gang_id
