"""The shell around `topo.gangs`: what the cluster tells goes in, what is to be done is written.

Level-triggered: what changed only marks a gang, which is then read whole. Only the leader does
this, and it needs no history: the machine goes on from what is in the cluster.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import prometheus_client as prom

from master.booking.placements import Placements
from master.controllers.nomination import gang_writes
from master.controllers.nomination.capacity_delta import CapacityDelta
from master.controllers.nomination.debounce import Debounce
from master.controllers.nomination.evictable import evictable_pods
from master.controllers.nomination.gang_builder import (
    GangContext,
    asked_gpus,
    build_gang,
    first_of,
)
from master.controllers.nomination.index import GangIndex
from master.controllers.nomination.inflight import InflightWrites
from master.controllers.nomination.metrics import NominationMetrics
from master.controllers.nomination.native import NativeGangs
from master.controllers.nomination.node_labels import NodeLabels
from master.controllers.nomination.placement_answers import PlacementAnswers
from master.controllers.nomination.queue_usage import QueueCounts, QueuePlugin
from master.controllers.nomination.sources import Sources
from master.controllers.nomination.status.advice import smallest_change
from master.controllers.nomination.status.bypassed_webhook import BypassedWebhook
from master.controllers.nomination.status.gang_view import GangView
from master.controllers.nomination.status.native_policy import NativePolicy
from master.controllers.nomination.status.nomination_policy import NominationPolicy
from master.controllers.nomination.status.startup import StartupPolicy
from master.controllers.nomination.status.status_store import StatusStore
from master.controllers.nomination.status.status_writer import StatusWriter
from master.controllers.nomination.status.warnings import gang_warnings
from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import NodeObject, key_of
from master.kube.reflector import Changed, Listed, Removed
from master.kube.volcano import PodGroupObject
from master.kube.volcano_config import NOT_READ, Configured
from master.kube.writing.writer import Settled, Writer
from master.kube.writing.writes import Patch, WriteTarget
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.decisions.eviction import Evictable
from topo.gangs.machine.events import Event, Leading, Observed, Planned, Vanished, WriteRefused
from topo.gangs.machine.gang import Gang, GangId, Selection
from topo.gangs.machine.gangs import Gangs
from topo.gangs.machine.instructions import (
    Check,
    Instruction,
    LabelNodes,
    Nominate,
    Open,
    OpenUnplanned,
    Place,
    Release,
    ReportStatus,
    UnlabelNodes,
)
from topo.gangs.machine.settings import GangSettings
from topo.gangs.status import GangStatus, Transition
from topo.model.forest import Snapshot
from topo.model.ids import NodeName
from topo.model.rest.topology import WarningDocument
from topo.publish.event_series import Reporter

RESYNC_S = 300.0
FLUSH_S = 1.0
SETTLING_POLL_S = 0.2
AT_ONCE = 16
"""Gangs that are read before everybody else has a turn."""


@dataclass(kw_only=True)
class Nomination:
    """Places gangs while this master leads. `is_counted`: what is free in the cluster is known."""

    sources: Sources
    writer: Writer
    placements: Placements
    is_counted: Callable[[], bool]
    domain: str
    settings: GangSettings
    max_hold_s: float
    reporter: Reporter
    registry: prom.CollectorRegistry
    queue_plugin: QueuePlugin = QueuePlugin.PROPORTION
    volcano: Configured = NOT_READ
    """What Volcano's scheduler is configured to do."""
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    server_now: Callable[[], float] = time.time
    """Unix time as API servers have it, who wrote when pods were made."""
    uncounted: Callable[[], Sequence[str]] = tuple
    """Why it is not known which groups there are, or what is free."""
    ungated: dict[GangId, str] = field(default_factory=dict)
    """Gangs whose gates a person wants opened, with why."""

    def __post_init__(self) -> None:
        self._keys = AnnotationKeys(self.domain)
        self._gangs = Gangs(self.settings)
        self._index = GangIndex(self._keys)
        self._placing = PlacementAnswers(self.placements.state, self.max_hold_s, self._evictable)
        self.status_writer = StatusWriter(self.writer, self.reporter, self._keys.condition)
        """Writes statuses, for the gate timeout of a follower, too; hears how each write ended."""
        self._statuses = StatusStore(
            advise=lambda gang, text: smallest_change(
                gang, text, self.placements.planner, self.clock
            ),
            write=self._write_status,
            recall=self._recall,
            clock=self.clock,
            now=self.now,
        )
        self._native = NativeGangs()
        self._bypassed_webhook = BypassedWebhook(
            self._index, self._native, self.sources.pod_groups, self.status_writer
        )
        self._metrics = NominationMetrics(
            self.registry,
            self._statuses.by_state,
            self._statuses.longest_s,
            slipped=lambda: len(self._bypassed_webhook.pods()),
            native=lambda: len(self._native),
        )
        self._known: dict[GangId, Gang] = {}
        self._room = CapacityDelta(self.placements.state)
        self._labels = NodeLabels(self._index, self.sources.nodes, self.writer, self._keys)
        self._asked: dict[WriteTarget, GangId] = {}
        self._inflight = InflightWrites(self.clock)
        self._answers: list[Event] = []
        self._debounce = Debounce(self.clock)
        self._ahead_s = self.server_now() - self.clock()
        """One for all of a term, so that gangs of one age stay in their order."""
        self.is_placing = False
        """Whether it has begun: it leads, and knows what is free."""
        self._queues = QueueCounts(
            self.sources.queues,
            self.sources.pod_groups,
            lambda: self.placements.state.capacity.gpus,
            weighted=self.queue_plugin is QueuePlugin.PROPORTION,
        )
        self._queue_moved = False
        """Whether pods changed what a queue has room for."""
        self._context = GangContext(
            keys=self._keys,
            nodes=lambda: self.sources.nodes.objects.values(),  # noqa: PLW0108 - a list replaces it
            pod_groups=lambda: self.sources.pod_groups.objects,
            missing_quota=self._queues.missing,
            kind_of_tier=self._placing.kind_of_tier,
            labelled=self._index.labelled,
            holds=lambda gang_id: self._holds.get(gang_id, ()),
            ungated=self.ungated,
            ahead_s=lambda: self._ahead_s,
        )
        self._holds = self._placing.holds()
        self._startup = StartupPolicy(
            gangs=self._unplaced,
            ungated=self.ungated,
            why=lambda: self.uncounted(),  # noqa: PLW0108 - it is set after
            store=self._statuses,
            write=self._write_pod,
            flush=lambda: self.status_writer.flush(self.now()),
            clock=self.clock,
        )
        self._native_policy = NativePolicy(
            gangs=self._native,
            context=self._context,
            capacity=self.placements.state.capacity,
            unheeded=lambda: self.volcano.unheeded,
            store=self._statuses,
        )
        self._policy = NominationPolicy(
            machine=self._gangs,
            known=self._known,
            evicts_nobody=lambda: self.volcano.evicts_nobody,
            preempts=self.settings.preempt_s is not None,
        )
        self._began_s = self.now()
        self.view = GangView(
            policies=lambda: (
                self._policy if self.is_placing else self._startup,
                self._native_policy,
            ),
            known=self._known,
            store=self._statuses,
            known_from_s=lambda: self._began_s,
        )
        self._subscribe()

    # What others ask

    @property
    def has_native(self) -> bool:
        """Whether there are pods whose nodes Volcano chooses by groups."""
        return len(self._native) > 0

    def warnings(self) -> tuple[WarningDocument, ...]:
        """What somebody should do about gangs."""
        gangs = ((name, status) for _, name, status in self._statuses.announced())
        return gang_warnings(gangs, self._bypassed_webhook.pods(), self.clock())

    def ungate(self, gang_ids: Iterable[GangId], why: str) -> None:
        """Has the gates of these gangs opened without a plan."""
        for gang_id in gang_ids:
            self.ungated[gang_id] = why
            self._mark(gang_id)

    def on_forest(self, _snapshot: Snapshot) -> None:
        """What it changes shows in the capacity."""
        self._native.mark_all()
        self._debounce.wake()

    # The loop

    async def run(self) -> None:
        """Places gangs until cancelled. Whatever the machine raises ends the process."""
        self._startup.begin()
        self._began_s = self.now()
        self._inflight = InflightWrites(self.clock)
        while not (self.is_counted() and self.sources.pods.synced):
            self._startup.look()
            await asyncio.sleep(SETTLING_POLL_S)
        self._ahead_s = self.server_now() - self.clock()
        self.is_placing = True
        self._room.begin()
        self._index.mark_all()
        # Their pods may have gone while no master led.
        for gang_id in (*self._placing.holds(), *self._statuses.gangs()):
            self._index.mark(gang_id)
        await self._turn(())
        for gang_id, gang in self._known.items():
            if any(member.gated for member in gang.members):
                self.status_writer.may_have_waited(gang_id)
        await self._turn((Leading(),))
        flushed_s = resynced_s = self.clock()
        try:
            while True:
                await self._debounce.wait(self._gangs.next_s)
                for gang_id in self._inflight.renewed(self.sources.pods.objects):
                    self._index.mark(gang_id)
                self._statuses.end_searches()
                with self._debounce.turn():
                    await self._turn(tuple(self._room.changes()))
                now_s = self.clock()
                if now_s - flushed_s >= FLUSH_S:
                    flushed_s = now_s
                    came = self._bypassed_webhook.tell(self.volcano.ignored, self.now())
                    self._metrics.pods_slipped.inc(came)
                    self._mark_waiting_for_queues()
                    self._native_policy.report()
                    self.status_writer.flush(self.now())
                if now_s - resynced_s >= RESYNC_S:
                    resynced_s = now_s
                    self._index.mark_all()
                    self._native.mark_all()
        finally:
            await self._statuses.cancel()

    async def _turn(self, more: tuple[Event, ...]) -> None:
        """Everything that is marked is read, and what follows from it is done."""
        answers, self._answers = self._answers, []
        events: list[Event] = [*more, *answers]
        self._holds = self._placing.holds()
        for number, gang_id in enumerate(self._index.take(), 1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            if self._inflight.is_awaited(gang_id, len(self._index.pods(gang_id))):
                self._index.mark(gang_id)
            else:
                events.append(self._observed(gang_id))
        out = self._gangs.advance(self.clock(), *events)
        while out:
            answers = [answer for each in out for answer in self._do(each)]
            out = self._gangs.advance(self.clock(), *answers) if answers else ()
            await asyncio.sleep(0)

    def _pods(self, gang_id: GangId) -> list[GangPod]:
        """Return the pods of a gang in their newest versions."""
        known = self.sources.pods.objects
        found = (known.get(key) for key in self._index.pods(gang_id))
        return [pod for pod in found if isinstance(pod, GangPod)]

    def _observed(self, gang_id: GangId) -> Event:
        pods = self._pods(gang_id)
        if not pods:
            self._known.pop(gang_id, None)
            self._inflight.forget(gang_id)
            self._statuses.forget(gang_id)
            self.status_writer.forget(gang_id)
            self._queues.seen(gang_id)
            self.ungated.pop(gang_id, None)
            labelled = tuple(sorted(self._index.labelled(gang_id)))
            return Vanished(gang_id, labelled, self._holds.get(gang_id, ()))
        gang = build_gang(gang_id, pods, self._context)
        before = self._known.get(gang_id)
        if before is not None:
            self._metrics.count_bound(before, gang)
        self._known[gang_id] = gang
        self._inflight.read(gang)
        if not any(member.gated for member in gang.members):
            self._queues.seen(gang_id)
        return Observed(gang)

    # What is to be done

    def _do(self, each: Instruction) -> Iterator[Event]:
        match each:
            case Place():
                yield self._place(each)
            case Check():
                yield self._check(each)
            case Release():
                self._placing.release(each.hold)
                self._mark(each.id)
            case LabelNodes():
                self._label(each.id, dict(each.nodes))
            case UnlabelNodes():
                self._label(each.id, dict.fromkeys(each.nodes))
            case Nominate() | Open() | OpenUnplanned():
                self._write_pod(each)
            case ReportStatus():
                if (gang := self._known.get(each.id)) is not None:
                    text = self._policy.describe(gang, each.state, each.text)
                    self._statuses.report(gang, each.state, text)

    def _place(self, asked: Place) -> Event:
        with self._metrics.decision():
            answer = self._placing.place(asked)
        result = "planned" if isinstance(answer, Planned) else "refused"
        again = "again-" if asked.kept or asked.replaced else ""
        self._metrics.plans.labels(again + result).inc()
        self._holds = self._placing.holds()
        self._mark(asked.id)
        return answer

    def _check(self, asked: Check) -> Event:
        pods = self._pods(asked.id)
        blocked = build_gang(asked.id, pods, self._context).awaits if pods else ""
        found = self._placing.check(asked, blocked)
        if blocked:
            self._mark(asked.id)
        elif pods and not (found.lost or found.split or found.apart):
            opened = asked_gpus(asked.id, pods, self._context.pod_group(pods[0]))
            if opened is not None:
                self._queues.let_go(opened)
        return found

    def _write_pod(self, each: Nominate | Open | OpenUnplanned) -> None:
        write = gang_writes.of_pod(each, self._namespace(each.id), self._keys)
        self._asked[write.target] = each.id
        self._inflight.wrote(each.id, (write.target.namespace, write.target.name))
        self.writer.put(write)

    def _label(self, gang_id: GangId, wanted: Mapping[NodeName, Selection | None]) -> None:
        for name in wanted:
            self._inflight.wrote(gang_id, ("", name))
        for lost in self._labels.want(gang_id, wanted):
            self._inflight.came(("", lost.subject))
            self._answers.append(lost)
            self._debounce.wake()

    def _write_status(self, gang_id: GangId, status: GangStatus) -> None:
        first = first_of(self._pods(gang_id) or self._native.pods(gang_id))
        if first is not None:
            now_s = self.now()
            since_s = now_s - (self.clock() - status.since_s)
            self.status_writer.write(first, status, since_s, now_s)

    def _recall(self, gang_id: GangId) -> Transition | None:
        """Return what an earlier leader wrote of the gang's state; None where it wrote nothing."""
        first = first_of(self._pods(gang_id))
        return first.reported if first is not None else None

    # What became of it

    def _pod_written(self, settled: Settled) -> None:
        write = settled.write
        gang_id = self._asked.pop(write.target, None)
        if not isinstance(write, Patch):
            return
        self._inflight.settled(settled, self.sources.pods.objects)
        if settled.error is None:
            if "spec" in write.fields:  # of whoever opens gates in this process
                self._opened(write)
            return
        if gang_id is None:
            return
        self._metrics.lost.labels("pod").inc()
        key = write.target.namespace, write.target.name
        self._inflight.refused(gang_id, key, write.version)
        self._answers.append(WriteRefused(gang_id, write.uid, settled.error.message, write.version))
        self._mark(gang_id)

    def _opened(self, write: Patch) -> None:
        how = "planned" if "nodeSelector" in write.fields["spec"] else "unplanned"
        self._metrics.opened.labels(how).inc()
        pod = self.sources.pods.objects.get((write.target.namespace, write.target.name))
        gang = self._known.get(pod.gang_id) if pod is not None else None
        if gang is not None:
            self._metrics.gate_s.observe(max(0.0, self.clock() - gang.created_s))

    def _node_written(self, settled: Settled) -> None:
        self._inflight.settled(settled, self.sources.nodes.objects)
        if settled.error is not None:
            self._metrics.lost.labels("node").inc()
        for lost in self._labels.settled(settled):
            self._answers.append(lost)
            self._mark(lost.id)

    # What the cluster tells

    def _subscribe(self) -> None:
        self.writer.listen(gang_writes.PODS_MANAGER, self._pod_written)
        self.writer.listen(gang_writes.NODES_MANAGER, self._node_written)
        self.sources.pods.subscribe(self._pod_told)
        self.sources.nodes.subscribe(self._node_told)
        self.sources.pod_groups.subscribe(self._pod_group_told)
        self.sources.queues.subscribe(lambda _: self._mark_gated())

    def _pod_told(
        self, told: Listed[ClusterPod] | Changed[ClusterPod] | Removed[ClusterPod]
    ) -> None:
        self._queue_moved |= self._queues.pods_told(told)
        if isinstance(told, Listed):
            self._index.all_pods(told.objects)
            self._native.all_pods(told.objects)
        else:
            key = key_of(told.object.metadata)
            pod = told.object if isinstance(told, Changed) else None
            self._index.pod(key, pod)
            self._native.pod(key, pod)
            self._inflight.came(key)
        self._debounce.wake()

    def _node_told(
        self, told: Listed[NodeObject] | Changed[NodeObject] | Removed[NodeObject]
    ) -> None:
        if isinstance(told, Listed):
            self._index.all_nodes(told.objects.values())
            names = [NodeName(name) for _, name in told.objects]
        else:
            name = NodeName(told.object.metadata.name)
            self._index.node(name, told.object if isinstance(told, Changed) else None)
            names = [name]
            self._inflight.came(("", name))
        self._labels.seen(names)
        self._debounce.wake()

    def _pod_group_told(
        self,
        told: Listed[PodGroupObject] | Changed[PodGroupObject] | Removed[PodGroupObject],
    ) -> None:
        if isinstance(told, Listed):
            self._mark_gated()
        else:
            self._index.pod_group(key_of(told.object.metadata))
        self._debounce.wake()

    def _mark_gated(self) -> None:
        """Gangs that wait for somebody's leave may have it."""
        for gang_id, gang in self._known.items():
            if any(member.gated for member in gang.members):
                self._index.mark(gang_id)
        self._debounce.wake()

    def _mark_waiting_for_queues(self) -> None:
        """What pods of others have or ask for changes what a queue has room for."""
        if self._queue_moved:
            self._queue_moved = False
            for gang_id, gang in self._known.items():
                if gang.awaits:
                    self._mark(gang_id)

    def _mark(self, gang_id: GangId) -> None:
        self._index.mark(gang_id)
        self._debounce.wake()

    # What gangs are read with

    def _namespace(self, gang_id: GangId) -> str:
        gang = self._known.get(gang_id)
        return gang.namespace if gang is not None else self._index.namespace(gang_id)

    def _unplaced(self) -> Iterator[Gang]:
        """The gangs as they are read while nothing is placed."""
        for gang_id in self._index.gangs():
            if pods := self._pods(gang_id):
                yield build_gang(gang_id, pods, self._context)

    def _evictable(self, gang_id: GangId, below: int) -> Sequence[Evictable]:
        gang, groups = self._known.get(gang_id), self.sources.pod_groups.objects
        if gang is None:
            return ()
        return tuple(evictable_pods(gang, self.sources.pods.objects, groups, below=below))
