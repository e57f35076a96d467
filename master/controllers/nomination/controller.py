"""The loop that places gangs: the cluster's changes go into the machine, its instructions out.

Level-triggered: a change only marks a gang, and a marked gang is read as a whole. Only the leader
runs this. It needs no history: the machine continues from the state of the cluster.

What raises an error for one gang, its reading or an answer, sets that gang aside
(`GangUnreadable`). An error of what all gangs share, such as the bookings (`SharedStateError`),
ends the process.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter

from master.controllers.nomination.capacity_delta import CapacityDelta
from master.controllers.nomination.cluster_changes import ClusterChanges
from master.controllers.nomination.gang_reader import GangReader
from master.controllers.nomination.metrics import NominationMetrics
from master.controllers.nomination.placement_answers import PlacementAnswers
from master.controllers.nomination.status.bypassed_webhook import BypassedWebhook
from master.controllers.nomination.status.gang_view import GangView
from master.controllers.nomination.status.native_policy import NativePolicy
from master.controllers.nomination.status.nomination_policy import NominationPolicy
from master.controllers.nomination.status.note_doubts import NoteDoubts
from master.controllers.nomination.status.policy import GangPolicy
from master.controllers.nomination.status.startup import StartupPolicy
from master.controllers.nomination.status.status_store import StatusStore
from master.controllers.nomination.status.status_writer import StatusWriter
from master.controllers.nomination.status.warnings import gang_warnings
from master.controllers.nomination.writing.instruction_writer import InstructionWriter
from master.object_errors import ObjectErrors, ObjectKind
from topo.gangs.machine.events import Event, GangUnreadable, Leading, Observed, Planned, Vanished
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.machine.gangs import Gangs
from topo.gangs.machine.instructions import (
    Check,
    Instruction,
    LabelNodes,
    Place,
    PodInstruction,
    Release,
    ReportStatus,
    UnlabelNodes,
)
from topo.model.forest import Snapshot
from topo.model.isolation import ObjectError, attempt
from topo.model.rest.topology import WarningDocument

RESYNC_S = 300.0
FLUSH_S = 1.0
SETTLING_POLL_S = 0.2
AT_ONCE = 16
"""Gangs that are read before other tasks get a turn."""
PLACED_A_TURN = 16
"""Gangs that are placed before what changed meanwhile is read: a gang that goes first may have
come. One takes up to 24 ms at 10,000 nodes, large ones more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusParts:
    """What computes, keeps, writes and shows the status of gangs."""

    store: StatusStore
    writer: StatusWriter
    bypassed_webhook: BypassedWebhook
    startup: StartupPolicy
    nomination: NominationPolicy
    native: NativePolicy
    note_doubts: NoteDoubts


@dataclass(kw_only=True)
class Nomination:
    """Places gangs while this master leads; `master/composition/nomination.py` builds its parts.

    `is_counted`: whether the groups and the free capacity are known. `ahead_s`: the API servers'
    Unix time minus `clock`. `ungated`: gangs whose gates a person wants opened, with why. `held`:
    jobs that have no pods yet. `errors`: the objects that are set aside.
    """

    machine: Gangs
    changes: ClusterChanges
    reader: GangReader
    answers: PlacementAnswers
    capacity: CapacityDelta
    writes: InstructionWriter
    status: StatusParts
    metrics: NominationMetrics
    is_counted: Callable[[], bool]
    ahead_s: Callable[[], float]
    ungated: dict[GangId, str]
    errors: ObjectErrors
    held: tuple[GangPolicy, ...] = ()
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    is_placing: bool = field(default=False, init=False)
    """Whether placement has begun: this master leads and knows the free capacity."""
    _left: tuple[Instruction, ...] = field(default=(), init=False)
    """What the last turn left to be done."""
    _told: dict[GangId, tuple[str, str]] = field(default_factory=dict, init=False)
    """The gangs whose error is noted: by which name, and the error."""
    _untold: dict[GangId, ObjectError] = field(default_factory=dict, init=False)
    """The gangs of which telling something raised an error, until something is told."""

    def __post_init__(self) -> None:
        self._began_s = self.now()
        self.view = GangView(
            policies=lambda: (
                self.status.nomination if self.is_placing else self.status.startup,
                self.status.native,
                *self.held,
            ),
            known=self.reader.known,
            store=self.status.store,
            known_from_s=lambda: self._began_s,
        )

    # What others ask

    @property
    def has_native(self) -> bool:
        """Whether there are pods of native gangs, whose nodes Volcano chooses."""
        return len(self.changes.native) > 0

    def warnings(self) -> tuple[WarningDocument, ...]:
        """Return the findings about gangs that need a person."""
        gangs = ((name, status) for _, name, status in self.status.store.announced())
        return gang_warnings(gangs, self.status.bypassed_webhook.pods(), self.clock())

    def ungate(self, gang_ids: Iterable[GangId], why: str) -> None:
        """Open the gates of these gangs without a plan."""
        for gang_id in gang_ids:
            self.ungated[gang_id] = why
            self.changes.mark(gang_id)

    def on_forest(self, _snapshot: Snapshot) -> None:
        """Read all native gangs again. Other gangs learn of the change from the capacity."""
        self.changes.native.mark_all()
        self.changes.debounce.wake()

    # The loop

    async def run(self) -> None:
        """Place gangs until cancelled. An exception of the machine ends the process."""
        self._began_s = self.now()
        await self._begin()
        flushed_s = resynced_s = self.clock()
        debounce, index = self.changes.debounce, self.changes.index
        try:
            while True:
                await debounce.wait(self.machine.next_s)
                self.changes.mark_renewed()
                self.status.store.end_searches()
                began_s = self.clock()
                is_late = self.changes.leaving.is_any()
                await self._turn(tuple(self.capacity.changes(is_late=is_late)))
                debounce.note_turn(began_s)
                now_s = self.clock()
                if now_s - flushed_s >= FLUSH_S:
                    flushed_s = now_s
                    self._flush()
                if now_s - resynced_s >= RESYNC_S:
                    resynced_s = now_s
                    index.mark_all()
                    self.changes.native.mark_all()
        finally:
            await self.status.store.cancel()

    async def _begin(self) -> None:
        """Read all gangs before the first decision, once the free capacity is known."""
        self.status.startup.begin()
        self.changes.inflight.clear()
        self._left = ()
        while not (self.is_counted() and self.changes.is_synced):
            self.status.startup.look(self.writes.write_pods)
            await asyncio.sleep(SETTLING_POLL_S)
        self.reader.begin_term(self.ahead_s())
        self.is_placing = True
        self.capacity.begin()
        self.changes.begin()
        # Their pods may have gone while no master led.
        for gang_id in (*self.answers.gangs_with_holds(), *self.status.store.gangs()):
            self.changes.index.mark(gang_id)
        await self._turn(())
        await self._turn((Leading(),))

    def _flush(self) -> None:
        """Run the work that is due once a second."""
        self.metrics.pods_slipped.inc(self.status.bypassed_webhook.report(self.now()))
        self.changes.mark_waiting_for_queues()
        self.changes.mark_unsettled(self.clock())
        self.status.native.report()
        self.status.writer.flush(self.now())

    async def _turn(self, more: tuple[Event, ...]) -> None:
        """Read every marked gang and apply the resulting instructions, as many as a turn has."""
        answers = self._carry_out(self._left)
        events: list[Event] = [*more, *answers, *self.writes.take_refused()]
        read: list[GangId] = []
        for number, gang_id in enumerate(self.changes.take(), 1):
            read.append(gang_id)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            events.append(self._observed(gang_id))
        out = self._advance(events)
        for _ in range(PLACED_A_TURN):
            if not out:
                break
            answers = self._carry_out(out)
            out = self._advance(answers) if answers else ()
            await asyncio.sleep(0)
        self._left = out
        self._compare_pods(read)
        self._note_errors()
        if out:
            self.changes.debounce.wake()

    def _compare_pods(self, read: Iterable[GangId]) -> None:
        """Write what pods that were read do not say: whoever wrote to them, whenever it came."""
        for gang_id in read:
            compared = attempt(partial(self.status.store.compare_pods, gang_id))
            if isinstance(compared, ObjectError):
                self._untold[gang_id] = compared

    def _advance(self, events: Iterable[Event]) -> tuple[Instruction, ...]:
        """Return what follows from events; quota stays reserved for pods that have places then."""
        out = self.machine.advance(self.clock(), *events)
        self.changes.retain_quota(self.machine.find)
        return out

    def _note_errors(self) -> None:
        """Note the gangs with an error, and those that have none any more.

        Gangs of one name, such as a Job and a StatefulSet, are told apart by their ids.
        """
        errors = self._untold | dict(self.machine.errors())
        for gang_id in self._told.keys() - errors.keys():
            self.errors.note(ObjectKind.GANG, self._told.pop(gang_id)[0], None)
        for gang_id, error in errors.items():
            name, why = self._told.get(gang_id, ("", ""))
            if why != error.reason:
                name = name or self._title(gang_id)
                self._told[gang_id] = name, error.reason
                self.errors.note(ObjectKind.GANG, name, error)

    def _title(self, gang_id: GangId) -> str:
        gang = self.reader.known.get(gang_id)
        return f"{gang.namespace}/{gang.name} ({gang_id})" if gang is not None else str(gang_id)

    def _observed(self, gang_id: GangId) -> Event:
        gang, before = self.reader.build(gang_id), self.reader.known.get(gang_id)
        if gang is None:
            return self._vanished(gang_id)
        if isinstance(gang, ObjectError):
            return self._unreadable(gang_id, gang)
        told = attempt(partial(self.status.note_doubts.look, gang, before))
        if isinstance(told, ObjectError):
            self._untold[gang_id] = told
        if before is not None:
            self.metrics.count_bound(before, gang)
        self.reader.known[gang_id] = gang
        self.changes.inflight.read(gang)
        return Observed(gang)

    def _unreadable(self, gang_id: GangId, error: ObjectError) -> Event:
        """Return the event that sets a gang aside; that it is gone, if its pods are by now."""
        gang = self.reader.outline(gang_id)
        if gang is None:
            return self._vanished(gang_id)
        self.reader.known[gang_id] = gang
        self.changes.inflight.read(gang)
        return GangUnreadable(gang, error)

    def _vanished(self, gang_id: GangId) -> Vanished:
        """Forget a gang without pods; return the event for the machine."""
        self.reader.known.pop(gang_id, None)
        self._untold.pop(gang_id, None)
        self.ungated.pop(gang_id, None)
        changes, status = self.changes, self.status
        for part in (changes.inflight, changes.ahead, status.store, status.writer):
            part.forget(gang_id)
        labelled = self.changes.index.superfluous_labels(gang_id)
        return Vanished(gang_id, labelled, tuple(self.answers.holds_of(gang_id)))

    # What is to be done

    def _carry_out(self, instructions: Iterable[Instruction]) -> list[Event]:
        """Carry out the instructions; return the answers to those that ask something."""
        answers: list[Event] = []
        of_pods: list[PodInstruction] = []
        for each in instructions:
            match each:
                case Place():
                    answers.append(self._answered(each.id, partial(self._place, each)))
                case Check():
                    answers.append(self._answered(each.id, partial(self._check, each)))
                case Release():
                    self.answers.release(each.hold)
                    self.changes.mark(each.id)
                case LabelNodes():
                    self.writes.label(each.id, dict(each.nodes))
                case UnlabelNodes():
                    self.writes.label(each.id, dict.fromkeys(each.nodes))
                case ReportStatus():
                    self._report(each)
                case _:
                    of_pods.append(each)
        for gang_id, of_gang in groupby(of_pods, key=attrgetter("id")):
            written = attempt(partial(self.writes.write_pods, tuple(of_gang)))
            if isinstance(written, ObjectError):
                answers.append(self._unreadable(gang_id, written))
        return answers

    def _answered(self, gang_id: GangId, answer: Callable[[], Event]) -> Event:
        """Return the answer to a question of one gang; that it is set aside if that raised."""
        found = attempt(answer)
        return self._unreadable(gang_id, found) if isinstance(found, ObjectError) else found

    def _report(self, asked: ReportStatus) -> None:
        """Report the state of a gang; one for which that raises an error goes on untold."""
        self._untold.pop(asked.id, None)
        gang = self.reader.known.get(asked.id)
        if gang is None:
            return
        found = attempt(partial(self._report_of, gang, asked))
        if isinstance(found, ObjectError):
            self._untold[asked.id] = found

    def _report_of(self, gang: Gang, asked: ReportStatus) -> None:
        text = self.status.nomination.describe(gang, asked.state, asked.text)
        self.status.store.report(gang, asked.state, text)

    def _place(self, asked: Place) -> Event:
        with self.metrics.decision():
            answer = self.answers.place(asked, lambda: self.reader.evictable(asked))
        self.capacity.read()
        result = "planned" if isinstance(answer, Planned) else "refused"
        again = "again-" if asked.kept or asked.replaced else ""
        self.metrics.plans.labels(again + result).inc()
        self.changes.mark(asked.id)
        return answer

    def _check(self, asked: Check) -> Event:
        """Check a plan, and the queue again: another gang may have been opened in the meantime."""
        blocked = self.reader.awaits(asked.id)
        found = self.answers.check(asked, blocked, self.reader.evictable(asked))
        if blocked:
            self.changes.mark(asked.id)
        elif not (found.lost or found.split or found.apart):
            opening = self.reader.opening(asked)
            if opening is not None:
                self.changes.queues.reserve(asked.id, *opening)
        return found
