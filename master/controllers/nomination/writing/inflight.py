"""Tracks writes that the watch has not shown yet, and gangs whose pods are still being created.

Writes to a large gang show pod by pod, and each read of the gang is a full read. After half of the
writes there is nothing to decide. So a gang is read once all its writes were seen; changes by
others in the meantime are seen `LATE_S` later.
"""

from collections.abc import Callable, Iterator, Mapping

from master.kube.objects import Key, KubeObject
from master.kube.writing.writer import Settled
from topo.gangs.machine.gang import Gang, GangId

LATE_S = 0.5
"""A gang that changed is read this long after the last time at the latest, in seconds."""


class InflightWrites:
    """Pods and nodes that are being written for gangs, by key. Mutable; one owner."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Drop everything before a new term."""
        self._left: dict[GangId, dict[Key, None]] = {}
        self._writers: dict[Key, dict[GangId, None]] = {}
        self._read_s: dict[GangId, float] = {}
        self._to_come: dict[GangId, int] = {}
        self._stale: dict[Key, tuple[GangId, str]] = {}

    def add(self, gang_id: GangId, *keys: Key) -> None:
        """Add the writes of pods or nodes."""
        left = self._left.setdefault(gang_id, {})
        for key in keys:
            left[key] = None
            self._writers.setdefault(key, {})[gang_id] = None

    def remove(self, key: Key) -> None:
        """Remove the writes of an object, because the watch showed it or never will."""
        for gang_id in self._writers.pop(key, ()):
            self._left[gang_id].pop(key)
            if not self._left[gang_id]:
                del self._left[gang_id]

    def settled(self, settled: Settled, known: Mapping[Key, KubeObject]) -> None:
        """Remove a write that ended without an event: it was refused, or it changed nothing."""
        now, key = settled.metadata, (settled.write.target.namespace, settled.write.target.name)
        there = known[key].metadata if key in known else None
        if now is None or (there and there.resource_version == now.resource_version):
            self.remove(key)

    def read(self, gang: Gang) -> None:
        """Start to wait for the missing pods and writes of the gang, which was just read."""
        self._read_s[gang.id] = self._clock()
        self._to_come[gang.id] = gang.request.pods

    def forget(self, gang_id: GangId) -> None:
        """Drop a deleted gang."""
        self._read_s.pop(gang_id, None)
        self._to_come.pop(gang_id, None)
        for key in self._left.pop(gang_id, ()):
            del self._writers[key][gang_id]

    def is_awaited(self, gang_id: GangId, pods: int) -> bool:
        """Return whether writes or pods of the gang are still missing; `pods` exist already."""
        read_s = self._read_s.get(gang_id)
        if read_s is None or self._clock() - read_s >= LATE_S:
            return False
        return gang_id in self._left or pods < self._to_come[gang_id]

    def refused(self, gang_id: GangId, key: Key, version: str) -> None:
        """Record that a write was refused because it named an outdated version of a pod."""
        self._stale[key] = gang_id, version

    def renewed(self, known: Mapping[Key, KubeObject]) -> Iterator[GangId]:
        """Yield and clear the gangs of pods whose refused version is outdated, or that are gone.

        A change of the version alone causes no event, so it has to be polled.
        """
        for key, (gang_id, version) in list(self._stale.items()):
            if key not in known or known[key].metadata.resource_version != version:
                del self._stale[key]
                yield gang_id
