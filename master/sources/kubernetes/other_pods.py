"""Pods without cards: of each only what it takes of its node is kept.

A node has some ten of them, mostly of daemons, so that those of 10,000 nodes would take 100 MB
as they are parsed. Here a pod is known by a hash of its key, in some 150 bytes.
"""

from dataclasses import dataclass, field

from master.kube.gang_pod import ClusterPod
from master.kube.objects import Key
from topo.placement.capacity.node_room import NodeRoom


@dataclass(slots=True)
class OtherPods:
    """Tells the room of nodes of these pods; the reflector of pods calls it."""

    room: NodeRoom
    _known: set[int] = field(default_factory=set)
    _listed: set[int] = field(default_factory=set)

    def begin(self) -> None:
        """Forget the list that was under way."""
        self._listed = set()

    def gather(self, found: ClusterPod) -> None:
        """Take a pod of a list."""
        self._listed.add(self._take(found))

    def end(self) -> None:
        """Drop the pods that are in the list no more."""
        for gone in self._known - self._listed:
            self._drop(gone)
        self._listed = set()

    def change(self, found: ClusterPod) -> None:
        """Take a pod that came or changed."""
        self._take(found)

    def remove(self, key: Key) -> None:
        """Drop a pod; an unknown one is ignored."""
        self._drop(hash(key))

    def _take(self, found: ClusterPod) -> int:
        number = hash((found.metadata.namespace, found.metadata.name))
        if (node := found.takes_of) is None:
            self._drop(number)
        else:
            self._known.add(number)
            self.room.set_pod(number, node, found.takes)
        return number

    def _drop(self, number: int) -> None:
        self._known.discard(number)
        self.room.remove_pod(number)
