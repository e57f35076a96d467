"""The source of the cluster's nodes for discovery: their names and whether they are Ready."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from master.kube.advice import next_step
from master.kube.objects import Key, NodeObject
from master.kube.reflector import Listed, Reflector, StoreEvent
from master.object_errors import ObjectErrors, ObjectKind
from master.sources.kubernetes.nodes import listed_node
from master.tree.engine import EventSink, send_event
from topo.model.forest import SourceWarning
from topo.model.ids import NodeName
from topo.model.isolation import ObjectError
from topo.model.observation import (
    CLUSTER_NODES,
    ClusterNodeGone,
    ClusterNodeSeen,
    ClusterNodesListed,
    ClusterNodesTold,
    Event,
    ListedNode,
    SourceFailed,
    SourceRecovered,
    SourceWarned,
)

BEAT_S = 10.0
"""How often a source without news confirms that it works: its age is shown."""
FAILING_S = 30.0
"""A watch that broke recovers within seconds; a longer failure makes the source fail."""
TURN = 32


class Counted(Protocol):
    """The count of the cluster's capacity."""

    settled: asyncio.Event

    @property
    def doubts(self) -> tuple[SourceWarning, ...]:
        """Statements that cannot be used."""
        ...


class NodeSource:
    """Sends changes of nodes, the latest of each; what a full queue refuses is sent later.

    It begins after the capacity has counted the first list. So when this source has answered, the
    pods of the cluster are counted, too, and no group is handed out before.
    """

    def __init__(
        self,
        of_nodes: Reflector[NodeObject],
        sink: EventSink,
        capacity: Counted,
        read: Callable[[NodeObject], ListedNode] = listed_node,
        *,
        errors: ObjectErrors | None = None,
    ) -> None:
        self._nodes, self._sink, self._capacity, self._read_node = of_nodes, sink, capacity, read
        self._errors = (errors or ObjectErrors()).scope(ObjectKind.OBJECT, "node")
        self._listed: dict[NodeName, ListedNode] = {}
        self._marked: dict[Key, None] = {}
        self._is_listed_anew = self._lost_all = False
        self._warned: tuple[SourceWarning, ...] = ()
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Send until cancelled."""
        self._nodes.subscribe(self._told)
        await self._until_counted()
        while True:
            await self._send_nodes()
            if self._capacity.doubts != self._warned:
                self._warned = self._capacity.doubts
                await send_event(self._sink, SourceWarned(CLUSTER_NODES, self._warned))
            if not await _set_within(self._woken, BEAT_S):
                await self._send_state()
            self._woken.clear()

    async def _until_counted(self) -> None:
        while not await _set_within(self._capacity.settled, BEAT_S):
            if self._nodes.trouble is not None:
                await self._send_state()

    def _told(self, told: StoreEvent[NodeObject]) -> None:
        """Mark what changed. After an empty list, which removed no node, any event means a new
        list.
        """
        if isinstance(told, Listed) or self._lost_all:
            self._lost_all = isinstance(told, Listed) and not told.objects
            self._is_listed_anew = True
        else:
            self._marked[told.key] = None
        self._woken.set()

    async def _send_nodes(self) -> None:
        if self._is_listed_anew:
            self._is_listed_anew = False
            self._marked.clear()
            await self._send_list()
        while self._marked and not self._is_listed_anew:
            key = next(iter(self._marked))
            del self._marked[key]
            if (event := self._changed(key)) is not None:
                await send_event(self._sink, event)

    async def _send_list(self) -> None:
        """Send the whole list, its news before in parts: 10,000 at once take half a second.

        What changes meanwhile is marked, and sent after it.
        """
        listed: dict[NodeName, ListedNode] = {}
        news: list[ListedNode] = []
        for number, found in enumerate(list(self._nodes.objects.values()), start=1):
            node = self._read(found)
            known = self._listed.get(node.name)
            listed[node.name] = node
            if node != known:
                news.append(node)
            if number % TURN == 0:
                if news:
                    await send_event(self._sink, ClusterNodesTold(tuple(news)))
                news.clear()
                await asyncio.sleep(0)
        await send_event(self._sink, ClusterNodesListed(tuple(listed.values())))
        if listed:
            self._listed = listed

    def _changed(self, key: Key) -> Event | None:
        """Return the event of a node, None without one; cordons and other labels do not matter."""
        name, found = NodeName(key[1]), self._nodes.objects.get(key)
        if found is None:
            self._errors.clear(name)
            return ClusterNodeGone(name) if self._listed.pop(name, None) is not None else None
        node = self._read(found)
        if self._listed.get(name) == node:
            return None
        self._listed[name] = node
        return ClusterNodeSeen(node)

    def _read(self, found: NodeObject) -> ListedNode:
        """Return what a node states; where that raises an error, what was known, as not Ready."""
        name = NodeName(found.metadata.name)
        node = self._errors.run(name, lambda: self._read_node(found))
        if isinstance(node, ObjectError):
            known = self._listed.get(name, ListedNode(name, ""))
            return replace(known, not_ready=f"its object cannot be read: {node}")
        return node

    async def _send_state(self) -> None:
        """Send whether the source works, if nothing else was sent for a beat."""
        trouble = self._nodes.trouble
        if trouble is not None and not (self._nodes.synced and self._nodes.silent_s() < FAILING_S):
            text = f"its nodes cannot be followed: {trouble.message}"
            await send_event(self._sink, SourceFailed(CLUSTER_NODES, text, next_step(trouble)))
        elif not self._lost_all:
            await send_event(self._sink, SourceRecovered(CLUSTER_NODES))


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    """Return whether the event is set within that time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
