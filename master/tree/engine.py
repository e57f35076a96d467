"""The loop that owns the discovery state: it gathers events, applies them, publishes the forest."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import structlog

from master.metrics import EngineMetrics
from master.object_errors import ObjectErrors, ObjectKind
from master.tree.history import History, Step
from master.tree.status_times import StatusTimes
from master.tree.suspicion_document import suspicion_document
from topo.discovery.memory import Memory
from topo.discovery.node.record import JudgedGpu
from topo.discovery.node_detail import NodeDetail
from topo.discovery.state import Discovery
from topo.discovery.suspicion.link_states import slot
from topo.discovery.tree.changes import compare
from topo.discovery.tree.fabric_forests import forests_beside
from topo.kit.threads import MadeOnce, timed_in_thread, uninterrupted
from topo.model.forest import Change, NodeSuspicion, Snapshot, SourceState
from topo.model.ids import Generation, NodeName, natural_key
from topo.model.machine import NodeFacts
from topo.model.observation import (
    ClusterNodesTold,
    ConfigLoaded,
    Event,
    FabricLoaded,
    ManagerReported,
    OperatorDecided,
    StoodStill,
    Ticked,
)
from topo.model.rest.topology import NodeReasonDocument, NodeSuspicionDocument

QUEUE_LIMIT = 50_000
"""Most events in the queue; beyond it senders retry. Two reports of each of 20,000 nodes, 40 MB."""
HISTORY_LIMIT = 50_000
"""Changes that are remembered singly, for differences and resumed streams: some 20 MB."""
GATHER_S = 0.02
"""Events within this time are applied together; a change is visible after this time plus that of
two batches. Further events do not prolong the wait, so constant churn never starves the tree."""
GATHER_CEILING_S = 0.1
RETRY_S = 0.1
"""Pause before an event is offered to a full queue again."""
BATCH_LIMIT = 96
"""Events applied in one step: bounds how long the loop serves nothing else. A first report costs
0.1 ms, which is what one counts for."""
LISTED_NODE_WEIGHT = 4
"""Weight of a node in a part of the cluster's list: the nodes wired to it are judged again."""
SLOW_EVENTS = (ManagerReported, ConfigLoaded, FabricLoaded)
"""Events that may move every node: 10,000 take half a second and more. Each is applied alone, in a
thread; who reads the detail of a node meanwhile has it of before or after."""
STUCK_S = 15.0
"""An engine that has not advanced for this long is not alive; it ticks every second."""
LONGEST_JUMP = 1000
"""Most generations that a replicated state may be ahead before the history starts over."""
LOGGED_CHANGES = 20
"""More changes than this in one step are logged as one line with their numbers."""

_log = structlog.get_logger(__name__)

Clock = Callable[[], float]


class EventSink(Protocol):
    """The target of events from the sources."""

    def submit(self, event: Event) -> bool:
        """Queue an event; return False when the queue is full."""
        ...


async def send_event(sink: EventSink, event: Event) -> None:
    """Submit an event; wait and retry while the queue is full."""
    while not sink.submit(event):  # noqa: ASYNC110 - the queue tells nobody of its room
        await asyncio.sleep(RETRY_S)


class Engine:
    """Owns the discovery state. Readers get frozen snapshots; nothing else may touch it."""

    def __init__(
        self,
        discovery: Discovery,
        metrics: EngineMetrics,
        *,
        queue_limit: int = QUEUE_LIMIT,
        tick_s: float = 1.0,
        standstill_s: float = STUCK_S,
        clock: Clock = time.monotonic,
    ) -> None:
        self._discovery = discovery
        self._metrics = metrics
        self._queue: deque[Event] = deque()
        self._queue_limit = queue_limit
        self._tick_s = tick_s
        self._standstill_s = standstill_s
        self._woken = asyncio.Event()
        self._batch_s = 0.0
        self._snapshot = discovery.snapshot
        self._replicated_sources: tuple[SourceState, ...] = ()
        """The states of another process's sources, while that process feeds this one."""
        self._in_use = asyncio.Lock()
        """Held while the discovery state changes, or is read as a whole in a thread."""
        self.clock = clock
        self.on_published: list[Callable[[Snapshot], None]] = []
        """Called with every snapshot, on the loop: for what must never lag behind the forest."""
        self.before_published: list[Callable[[Snapshot], Awaitable[None]]] = []
        """Called with a snapshot in which all may be new before it is published: for what would
        take too long at once then."""
        self.is_fed: Callable[[], bool] = lambda: True
        """Whether events and time may change what is known; else `replicate` alone does."""
        self.errors = ObjectErrors().scope(ObjectKind.REPORT, "report of")
        """Takes the nodes of which the last report could not be used."""
        self._told_errors = discovery.report_errors
        self.on_advanced: Callable[[float], None] | None = None
        """Called with the time of every step, about once a second at least."""
        self.advanced_at_s = clock()
        self.history = History(HISTORY_LIMIT, discovery.snapshot.generation)
        self.status_times = StatusTimes()
        self.beside = MadeOnce(forests_beside).of
        """Returns the forests of the fabrics beside a tree, for threads; once for the newest."""

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that is published now."""
        return self._snapshot

    @property
    def waiting(self) -> int:
        """Events in the queue."""
        return len(self._queue)

    @property
    def alive(self) -> bool:
        """Whether the loop has advanced lately."""
        return self.clock() - self.advanced_at_s < STUCK_S

    def detail(self, node: NodeName) -> NodeDetail | None:
        """Return what is known of one node apart from its place."""
        return self._discovery.detail(node)

    def suspicion(self, node: NodeName) -> NodeSuspicionDocument:
        """Return what is held against a node, empty for an unknown one. O(its links)."""
        return suspicion_document(self._discovery.suspicions, node, self.clock())

    def link_names(self, node: NodeName) -> tuple[str, ...]:
        """Return the links of a node by which operators decide, in natural order. O(its links)."""
        detail = self._discovery.detail(node)
        cables = {slot(link.slot) for link in detail.links} if detail is not None else set[str]()
        return tuple(sorted(self._discovery.suspicions.link_names(node) | cables, key=natural_key))

    @property
    def suspected(self) -> Mapping[NodeName, NodeSuspicion]:
        """The suspicions of nodes; only of nodes that have any."""
        return self._discovery.suspicions.suspected

    async def decide(self, event: OperatorDecided) -> None:
        """Apply an operator's decision at once."""
        async with self._in_use:
            self._apply(self.clock(), [event])
        _log.info("operator decided", node=event.node, act=event.act.value, reason=event.reason)

    def facts_of(self, node: NodeName) -> NodeFacts | None:
        """Return the facts of one node's worker, the same object until they change. O(1)."""
        return self._discovery.facts(node)

    def judged_gpus(self, node: NodeName) -> tuple[JudgedGpu, ...] | None:
        """Return the GPUs of a node's last reading; None before its first one. O(GPUs).

        No claim is to get a GPU of a node in quarantine, so all of them count as broken.
        """
        gpus = self._discovery.judged_gpus(node)
        if gpus is None or self._discovery.suspicions.quarantine(node) is None:
            return gpus
        return tuple(JudgedGpu(each.gpu, is_broken=True) for each in gpus)

    def facts(self) -> Mapping[NodeName, NodeFacts]:
        """Return the workers' facts of all nodes. O(nodes)."""
        return self._discovery.all_facts()

    def knows(self, node: NodeName) -> bool:
        """Return whether a worker's facts of this node are known. O(1)."""
        return self._discovery.facts(node) is not None

    def reasons(self, node: NodeName) -> tuple[NodeReasonDocument, ...]:
        """Return why a node is NotReady, and since when; empty for an unknown one. O(reasons)."""
        found, now_s = self._discovery.shown(node), self.clock()
        return tuple(
            NodeReasonDocument(why.code, why.text, None if at_s is None else round(now_s - at_s, 1))
            for why in (() if found is None else found.reasons)
            for at_s in (self.status_times.of_reason(node, why.code),)
        )

    async def persistent_state(self) -> tuple[Memory, float]:
        """Return what a state file keeps, and the CPU seconds that it took, in a thread."""
        async with self._in_use:
            return await uninterrupted(timed_in_thread(self._discovery.persistent_state))

    async def restore(self, memory: Memory, age_s: float) -> None:
        """Replace all that is known by the state of an earlier process.

        Restarts the history and ends the streams that follow it, since the changes of an earlier
        process are not known. Runs in a thread; no event may be fed meanwhile.
        """
        now_s = self.clock()

        def work_out() -> Discovery:
            discovery = self._discovery.fresh()
            discovery.restore(memory, age_s, now_s)
            return discovery

        discovery = await asyncio.to_thread(work_out)
        await self._call_before_published(discovery.snapshot)
        self._replicated_sources = ()  # what is asked from here on is asked by this process
        self._start_over(discovery)

    async def replicate(self, memory: Memory) -> None:
        """Replace all that is known by the state of another process, under its generation.

        The history continues with the differences. Runs in a thread. O(nodes).
        """
        if memory.generation == 0:
            return
        now_s, before = self.clock(), self.snapshot
        made = replace(memory, generation=Generation(memory.generation - 1))

        def work_out() -> tuple[Discovery, tuple[Change, ...], bool]:
            discovery = self._discovery.fresh()
            discovery.restore(made, None, now_s)
            snapshot = discovery.snapshot
            changes = compare(before.forest, snapshot.forest, snapshot.generation)
            return discovery, changes, snapshot.forest == before.forest

        discovery, changes, is_same = await asyncio.to_thread(work_out)
        await self._call_before_published(discovery.snapshot)
        if self.is_fed():
            self._call_on_published()  # meanwhile this process has come to know better
            return
        generation = discovery.snapshot.generation
        if is_same and generation == before.generation:
            return
        if not 0 < generation - before.generation <= LONGEST_JUMP:
            self._start_over(discovery)
            return
        self._discovery = discovery
        self._publish()
        for passed in range(before.generation + 1, generation):
            self.history.add(Step(Generation(passed), ()))
        self.history.add(Step(generation, changes))
        self.status_times.note(changes, now_s, self._discovery.shown)

    def replicate_sources(self, states: tuple[SourceState, ...]) -> None:
        """Show the states of another process's sources, with times on this process's clock."""
        if not self.is_fed():
            self._replicated_sources = states
            self._snapshot = replace(self._snapshot, sources=states or self._snapshot.sources)

    def _start_over(self, discovery: Discovery) -> None:
        self.history.close()
        self._discovery = discovery
        self.history = History(HISTORY_LIMIT, discovery.snapshot.generation)
        self.status_times = StatusTimes()
        self._publish()

    async def _call_before_published(self, snapshot: Snapshot) -> None:
        for listener in self.before_published:
            await listener(snapshot)

    def _publish(self) -> None:
        snapshot = self._discovery.snapshot
        self._snapshot = replace(snapshot, sources=self._replicated_sources or snapshot.sources)
        self._call_on_published()

    def _call_on_published(self) -> None:
        for listener in self.on_published:
            listener(self.snapshot)

    def submit(self, event: Event) -> bool:
        """Queue an event; return False when the queue is full."""
        if len(self._queue) >= self._queue_limit:
            self._metrics.dropped.inc()
            return False
        self._queue.append(event)
        self._woken.set()
        return True

    async def run(self) -> None:
        """Apply events until cancelled; what `advance` raises ends the process."""
        self.advanced_at_s = self.clock()
        while True:
            if not self._queue:
                self._woken.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._tick_s):
                        await self._woken.wait()
            await asyncio.sleep(self._gather_s())
            await self._advance()

    def _gather_s(self) -> float:
        """Return how long to gather events; a full batch waits only for one turn of the loop."""
        if len(self._queue) >= BATCH_LIMIT:
            return min(self._batch_s, GATHER_CEILING_S)
        return min(max(GATHER_S, 2 * self._batch_s), GATHER_CEILING_S)

    def _next_batch(self) -> list[Event]:
        """Take the next events out of the queue, up to a limit of weight. A slow event is alone."""
        batch, weight = list[Event](), 0
        if self._queue and isinstance(self._queue[0], SLOW_EVENTS):
            return [self._queue.popleft()]
        while self._queue and weight < BATCH_LIMIT and not isinstance(self._queue[0], SLOW_EVENTS):
            event = self._queue.popleft()
            told = event.nodes if isinstance(event, ClusterNodesTold) else ()
            weight += max(1, LISTED_NODE_WEIGHT * len(told))
            batch.append(event)
        return batch

    async def _advance(self) -> None:
        if not self.is_fed():
            self._queue.clear()
            self.advanced_at_s = self.clock()
            return
        async with self._in_use:
            batch, began_s = self._next_batch(), self.clock()
            if self.on_advanced is not None:
                self.on_advanced(began_s)
            paused_s = began_s - self.advanced_at_s
            at_once: list[Event] = []
            if paused_s > self._standstill_s:
                _log.warning(
                    "the master stood still; workers have time to report",
                    seconds=round(paused_s, 1),
                )
                at_once = [StoodStill()]
            if not batch or not isinstance(batch[0], SLOW_EVENTS):
                self._apply(began_s, [*at_once, *batch] or [Ticked()])
                return
            # After this step no node is late, so the thread changes no record of a node.
            self._apply(began_s, at_once or [Ticked()])
            await self._apply_in_thread(began_s, batch)

    def _apply(self, now_s: float, batch: list[Event]) -> None:
        self._finish_step(batch, now_s, self._discovery.advance(now_s, *batch))

    async def _apply_in_thread(self, now_s: float, batch: list[Event]) -> None:
        discovery = self._discovery
        changes = await uninterrupted(asyncio.to_thread(discovery.advance, now_s, *batch))
        if changes:
            await self._call_before_published(discovery.snapshot)
        self._finish_step(batch, now_s, changes)

    def _finish_step(self, batch: list[Event], began_s: float, changes: tuple[Change, ...]) -> None:
        self.advanced_at_s = self.clock()
        self._batch_s = self.advanced_at_s - began_s
        self._metrics.count(batch, self._batch_s)
        self._tell_errors()
        before, self._snapshot = self._snapshot.generation, self._discovery.snapshot
        generation = self._snapshot.generation
        if generation != before:
            self._call_on_published()
            self.history.add(Step(generation, changes))
            self.status_times.note(changes, began_s, self._discovery.shown)
            _log_changes(generation, changes)

    def _tell_errors(self) -> None:
        """Tell of which nodes the last report cannot be used, and of which it can again."""
        found = self._discovery.report_errors
        if found == self._told_errors:
            return
        for node, error in found.items():
            if error != self._told_errors.get(node):
                self.errors.note(node, error)
        for node in self._told_errors.keys() - found.keys():
            self.errors.note(node, None)
        self._told_errors = found


def _log_changes(generation: Generation, changes: tuple[Change, ...]) -> None:
    if len(changes) > LOGGED_CHANGES:
        numbers = Counter(change.what.replace("-", "_") for change in changes)
        _log.info("tree changed", generation=generation, **numbers)
        return
    for change in changes:
        _log.info(
            change.what,
            generation=generation,
            subject=change.subject,
            before=change.before,
            after=change.after,
            why=change.why,
        )
