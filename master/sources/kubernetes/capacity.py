"""What is free where follows the cluster: its nodes and pods become hosts and bookings.

What the reflectors tell marks an object, and the marked ones are worked off in turns: an object
that changes often costs one step, a list of all pods holds nobody up, and what is counted in the
end is what the reflectors hold, in whatever order it came.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping

from master.booking.state import BookingState
from master.kube.objects import Key, NodeObject, PodObject, key_of
from master.kube.reflector import Changed, Listed, Reflector, Removed
from master.sources.kubernetes import nodes, pods
from master.sources.kubernetes.device_config import SharingModes
from master.sources.kubernetes.nodes import cluster_node
from master.sources.kubernetes.pods import pod_seen
from topo.model.forest import Reason
from topo.model.ids import NodeName
from topo.placement.booking.events import Event, PodGone

TURN = 128
"""Objects of a kind that are worked off before everybody else has a turn: a few milliseconds."""
DOUBT = "doubtful-object"
_MODES = ("", "")
"""The key under which doubts about the modes stand; no object has it."""
MOST_DOUBTS = 16
"""Objects that are told of one by one; of the others only how many there are."""


class ClusterCapacity:
    """Keeps the nodes and pods of a `BookingState` those of the cluster. Runs in followers, too.

    An empty list after one with nodes takes none away: no cluster that is asked has no node. They
    stay until one is told again.
    """

    def __init__(
        self, state: BookingState, of_nodes: Reflector[NodeObject], of_pods: Reflector[PodObject]
    ) -> None:
        self._state, self._nodes, self._pods = state, of_nodes, of_pods
        self._modes = SharingModes()
        self._marked_nodes: dict[Key, None] = {}
        self._marked_pods: dict[Key, None] = {}
        self._uids: dict[Key, str] = {}
        self._doubts: dict[Key, tuple[str, ...]] = {}
        self._lost_all = False
        self._woken = asyncio.Event()
        self.settled = asyncio.Event()
        """Set once all nodes and pods that were listed first are counted."""
        of_nodes.subscribe(self._node_told)
        of_pods.subscribe(self._pod_told)

    @property
    def doubts(self) -> tuple[Reason, ...]:
        """What nodes and pods state and nobody can follow, in the order of their names."""
        found = [text for key in sorted(self._doubts) for text in self._doubts[key]]
        told = [Reason(DOUBT, text) for text in found[:MOST_DOUBTS]]
        more = len(found) - len(told)
        return (*told, *([Reason(DOUBT, f"{more} more of this kind")] if more else []))

    def share(self, modes: SharingModes, doubt: str = "") -> None:
        """Takes over which nodes share their cards; `doubt` says what is wrong with who says so."""
        self._doubt({_MODES: (doubt,) if doubt else ()}, [_MODES])
        if modes != self._modes:
            self._modes = modes
            self._mark_nodes()

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            while self._marked_nodes or self._marked_pods:
                self._follow_nodes(_taken(self._marked_nodes))
                self._follow_pods(_taken(self._marked_pods))
                await asyncio.sleep(0)
            if self._nodes.synced and self._pods.synced:
                self.settled.set()
            self._woken.clear()
            await self._woken.wait()

    # What the reflectors tell: it only marks.

    def _node_told(
        self, told: Listed[NodeObject] | Changed[NodeObject] | Removed[NodeObject]
    ) -> None:
        if isinstance(told, Listed):
            self._lost_all = not told.objects
            self._mark_nodes()
        elif self._lost_all:
            self._lost_all = False
            self._mark_nodes()
        else:
            self._marked_nodes[key_of(told.object.metadata)] = None
        self._woken.set()

    def _mark_nodes(self) -> None:
        if not self._lost_all:
            known = (("", str(name)) for name in self._state.follower.cluster)
            self._marked_nodes |= dict.fromkeys([*known, *self._nodes.objects])
        self._woken.set()

    def _pod_told(self, told: Listed[PodObject] | Changed[PodObject] | Removed[PodObject]) -> None:
        if isinstance(told, Listed):
            self._marked_pods |= dict.fromkeys([*self._uids, *told.objects])
        else:
            self._marked_pods[key_of(told.object.metadata)] = None
        self._woken.set()

    # What is marked is made what the reflectors hold.

    def _follow_nodes(self, keys: Collection[Key]) -> None:
        policy, known = self._state.capacity.policy, self._state.follower.cluster
        found = {key: self._nodes.objects.get(key) for key in keys}
        there = {key: node for key, node in found.items() if node is not None}
        stated = [cluster_node(node, policy, self._modes) for node in there.values()]
        changed = [node for node in stated if known.get(node.name) != node]
        gone = [NodeName(key[1]) for key in found.keys() - there.keys()]
        if changed or gone:
            self._state.follow_cluster(changed, gone)
        self._doubt({key: tuple(nodes.doubts(node, policy)) for key, node in there.items()}, keys)

    def _follow_pods(self, keys: Collection[Key]) -> None:
        events = [event for key in keys for event in self._events_of(key)]
        if events:
            self._state.advance(*events)
        policy, objects = self._state.capacity.policy, self._pods.objects
        there = {key: objects[key] for key in keys if key in objects}
        self._doubt({key: tuple(pods.doubts(pod, policy)) for key, pod in there.items()}, keys)

    def _events_of(self, key: Key) -> Iterator[Event]:
        """A name may have come again with another pod while nobody looked."""
        found, before = self._pods.objects.get(key), self._uids.get(key)
        seen = None if found is None else pod_seen(found, self._state.capacity.policy)
        if before is not None and (seen is None or seen.pod.uid != before):
            del self._uids[key]
            yield PodGone(before)
        if seen is not None:
            self._uids[key] = seen.pod.uid
            yield seen

    def _doubt(self, found: Mapping[Key, tuple[str, ...]], keys: Collection[Key]) -> None:
        for key in keys:
            if texts := found.get(key):
                self._doubts[key] = texts
            else:
                self._doubts.pop(key, None)


def _taken(marked: dict[Key, None]) -> list[Key]:
    """Takes out as many as are worked off in a turn, those that were marked first."""
    keys = [key for key, _ in zip(marked, range(TURN), strict=False)]
    for key in keys:
        del marked[key]
    return keys
