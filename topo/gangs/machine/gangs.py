"""Gangs from their pods to their nodes: a pure state machine, events in and instructions out.

Each gang is observed as a whole whenever it changes (`Observed`) and compared with its plan: a
missing write becomes an instruction, and a pending write is not issued again. So the machine has no
position in a sequence that it could lose: a write that failed, a pod that was created again, a
leader that died between two writes are differences like any other. `write_order` has the order of
the writes and why it is safe, `placement_needs` decides which placement is due, `pending_queue`
which gang is next, `record` holds the facts about one gang.

Nothing here reads a clock: the same events at the same times give the same instructions.
An error that a step of one gang raises sets that gang aside (`registry.unreadable`); the others go
on. An error of what all gangs share, such as the queue, passes: it ends the process.

Example: a gang of two pods that selects nodes by the label of its hold.
    Leading, Observed(2 pods, gated)      Place 1
    Planned(1, n0 n1, hold h)             LabelNodes n0 n1; Nominate p0 n0, p1 n1; report placed
    Observed(nominated, labelled)         Check 2
    Checked(2)                            Open p0, p1
    CapacityChanged(n1), p0 bound         Check 3
    Checked(3, lost n1)                   Place 4 of p1, beside p0 on n0
    Planned(4, n2, hold k)                UnlabelNodes n1; Nominate p1 n2
    Observed(nominated, unlabelled)       LabelNodes n2
    Observed(both bound)                  Release k, h; report bound
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from math import inf

from topo.gangs.machine.dispatch import (
    issue_writes,
    refused_writes,
    unexpired_writes,
    unfinished_writes,
)
from topo.gangs.machine.events import (
    CapacityChanged,
    Checked,
    Event,
    GangUnreadable,
    Leading,
    Observed,
    Planned,
    Refused,
    Vanished,
    WriteRefused,
)
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.machine.instructions import Instruction, Release
from topo.gangs.machine.invariants import invariants, machine_invariants
from topo.gangs.machine.pending_queue import PendingQueue, QueueTurn
from topo.gangs.machine.placement_needs import (
    Need,
    PlacementNeed,
    answers,
    placement_need,
    was_refused,
    with_refusal,
    with_refusal_of_all,
    without_stuck_places,
)
from topo.gangs.machine.placement_requests import queue_request
from topo.gangs.machine.pod_notes import with_plan
from topo.gangs.machine.record import (
    Purpose,
    Record,
    holds_of,
    restore_record,
    update_record,
    with_check,
    without_block,
    without_places,
)
from topo.gangs.machine.registry.deadlines import Deadlines, due_times
from topo.gangs.machine.registry.gangs_state import GangsState
from topo.gangs.machine.registry.planned_nodes import PlannedNodes
from topo.gangs.machine.registry.questions import Questions
from topo.gangs.machine.registry.unplanned_gangs import UnplannedGangs
from topo.gangs.machine.registry.unreadable import SetAside
from topo.gangs.machine.settings import BY_DEFAULT, GangSettings
from topo.gangs.machine.status import is_undecided, state_of, status_of, with_report
from topo.gangs.machine.unbound_pods import follow_unbound_pods
from topo.gangs.machine.write_order import next_writes, progress_of
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState
from topo.model.errors import require
from topo.model.isolation import ObjectError, attempt

Instructions = tuple[Instruction, ...]


class Gangs:
    """All gangs. Not thread-safe: one controller owns it while it leads."""

    def __init__(self, settings: GangSettings = BY_DEFAULT) -> None:
        self._settings, self._leading = settings, False
        self._records: dict[GangId, Record] = {}
        self._unplanned = UnplannedGangs(settings)
        """Gangs that are gone or set aside; none of them has a record."""
        self._queue = PendingQueue(settings.order)
        self._turn: GangId | None = None
        """The gang of the queue whose placement is requested."""
        self._planned_nodes = PlannedNodes()
        self._questions = Questions(settings, self._planned_nodes)
        self._stranded: dict[GangId, None] = {}
        """Gangs that wait for room outside of the queue."""
        self._unreported: dict[GangId, None] = {}
        """Gangs whose turn may come in this step, so that their state is reported after it."""
        self._reminders = Deadlines()
        self._touched: dict[GangId, None] = {}

    # Queries

    @property
    def next_s(self) -> float | None:
        """Return the latest time for the next call of `advance`, events or not; None for never."""
        return self._reminders.next_s

    def find(self, gang_id: GangId) -> Record | SetAside | None:
        """Return what is known of a gang; None for one that is gone; O(1)."""
        return self._records.get(gang_id) or self._unplanned.find(gang_id)

    def status(self, gang_id: GangId) -> GangStatus | None:
        """Return the status of a gang, None for one that is not known; O(gangs)."""
        record = self._records.get(gang_id)
        if record is None:
            return self._unplanned.status(gang_id)
        return status_of(record, self._queue, self._queue.ahead(gang_id))

    def statuses(self) -> Iterator[tuple[GangId, GangStatus]]:
        """Yield the status of every gang, in the order in which they came; O(gangs log gangs)."""
        ahead = {each: number for number, each in enumerate(self._queue.in_turn())}
        for gang_id, record in self._records.items():
            yield gang_id, status_of(record, self._queue, ahead.get(gang_id))
        for aside in self._unplanned.set_aside:
            yield aside.gang.id, aside.status

    def errors(self) -> Iterator[tuple[GangId, ObjectError]]:
        """Yield the gangs that are set aside, and the error of each."""
        for aside in self._unplanned.set_aside:
            yield aside.gang.id, aside.error

    def state(self) -> GangsState:
        """Return everything that the machine knows as a value; O(gangs)."""
        return GangsState(
            self._leading,
            tuple(self._records.values()),
            self._unplanned.gone,
            self._unplanned.set_aside,
            self._turn,
            self._queue.head,
            self._queue.kept,
            tuple(self._stranded),
        )

    # Events

    def advance(self, now_s: float, *events: Event) -> Instructions:
        """Apply the time and the events in their order; return the instructions that follow.

        Before `Leading` events are only recorded. O(members) for each gang of an event, O(log
        gangs) for the queue, O(distinct requests) if there is more room.
        """
        for gang_id in self._reminders.take(now_s):
            if gang_id in self._records or gang_id in self._unplanned:
                self._touched[gang_id] = None
        out: list[Instruction] = []
        for event in events:
            out += self._HANDLERS[type(event)](self, event, now_s)
        if self._leading:
            out += self._settle_touched(now_s)
            for gang_id in self._queue.take_elastic():
                self._stranded[gang_id] = None
                self._put(with_refusal_of_all(self._records[gang_id]))
            out += self._settle_touched(now_s)
            out += self._ask_for_next(now_s)
            out += self._report_rest(now_s)
            out += self._settle_touched(now_s)  # those that were set aside meanwhile
        return tuple(out)

    def _settle_touched(self, now_s: float) -> Iterator[Instruction]:
        """Yield the instructions that the touched gangs need now; an error is its gang's."""
        while self._touched:
            gang_id = next(iter(self._touched))
            del self._touched[gang_id]
            record = self._records.get(gang_id) or self._tried_again(gang_id, now_s)
            if record is None:
                writes, due_s = self._unplanned.settle(gang_id, now_s)
                if due_s < inf:
                    self._reminders.put(gang_id, due_s, now_s)
                yield from writes
                continue
            found = attempt(partial(self._settle, record, now_s))
            if isinstance(found, ObjectError):
                self._put_aside(record.gang, found, now_s)
            else:
                yield from found

    def _observed(self, event: Observed, now_s: float) -> Iterable[Instruction]:
        gang = event.gang
        if self._unplanned.observe(gang):
            self._touched[gang.id] = None
            return ()
        found = attempt(partial(self._read, gang))
        if isinstance(found, ObjectError):
            self._put_aside(gang, found, now_s)
        else:
            self._put(found)
        return ()

    def _tried_again(self, gang_id: GangId, now_s: float) -> Record | None:
        """Return the record of a gang that was set aside and is another one now; None if not."""
        gang = self._unplanned.due_again(gang_id, now_s)
        found = attempt(partial(self._read, gang)) if gang is not None else None
        if isinstance(found, ObjectError) and gang is not None:
            self._put_aside(gang, found, now_s)
        if not isinstance(found, Record):
            return None
        found = replace(found, given=self._unplanned.readmit(gang_id, now_s))
        self._store(found)
        return found

    def _read(self, gang: Gang) -> Record:
        """Return the record of a gang as it is now."""
        record = self._records.get(gang.id)
        if record is None:
            return restore_record(gang)
        given = unfinished_writes(record.given, gang)
        return update_record(replace(record, given=given), gang)

    def _unreadable(self, event: GangUnreadable, now_s: float) -> Iterable[Instruction]:
        if (record := self._records.get(event.gang.id)) is not None:
            self._store(record.with_openings_alone())
        self._put_aside(event.gang, event.error, now_s)
        return ()

    def _vanished(self, event: Vanished, _now_s: float) -> Iterable[Instruction]:
        record = self._records.get(event.id)
        self._unplanned.vanish(event)
        if record is not None:
            self._forget(record)
        self._touched[event.id] = None
        return ()

    def _took_over(self, _event: Leading, _now_s: float) -> Iterable[Instruction]:
        self._leading = True
        self._touched |= dict.fromkeys((*self._records, *self._unplanned))
        return ()

    def _planned(self, event: Planned, now_s: float) -> Iterable[Instruction]:
        record = self._answered(event)
        if record is None:
            known = self._records.get(event.id)
            in_use = known is not None and event.hold in holds_of(known.waiting_pods())
            return () if in_use else (Release(event.id, event.hold),)
        found = attempt(partial(self._take_plan, record, event))
        if isinstance(found, ObjectError):
            self._put_aside(record.gang, found, now_s)
            return (Release(event.id, event.hold),)
        return found

    def _take_plan(self, record: Record, event: Planned) -> Iterable[Instruction]:
        """Store the record with the plan that answers its request; return what to release."""
        assert record.asked is not None, "it was answered"  # noqa: S101 - for the type checker
        found = with_plan(record, event)
        if found is None:
            text = "the pods that wait select different nodes"
            self._strand(without_places(record, record.asked.uids), text)
            return (Release(event.id, event.hold),)
        if found.no_room is not None:
            self._stranded[event.id] = None
        self._put(found)
        return ()

    def _refused(self, event: Refused, _now_s: float) -> Iterable[Instruction]:
        record = self._answered(event)
        if record is None:
            return ()
        assert record.asked is not None, "it was answered"  # noqa: S101 - for the type checker
        purpose = record.asked.purpose
        if event.id not in self._queue or purpose in {Purpose.MOVE, Purpose.WHOLE}:
            self._strand(record, event.text)
            return ()
        self._queue.refuse(event)
        if purpose is Purpose.GROWTH and record.gang.starts_in_part:
            self._strand(record, event.text)
        else:
            self._put(replace(record, asked=None))
        return ()

    def _checked(self, event: Checked, _now_s: float) -> Iterable[Instruction]:
        record = self._records.get(event.id)
        if record is None or record.check != event.ask:
            return ()
        found = with_check(record, event)
        if event.blocked:
            self._stranded[event.id] = None
        self._put(found)
        return ()

    def _capacity_changed(self, event: CapacityChanged, _now_s: float) -> Iterable[Instruction]:
        planned = dict.fromkeys(chain.from_iterable(map(self._planned_nodes.gangs, event.nodes)))
        for gang_id in planned:
            self._put(replace(self._records[gang_id], checked=False, check=None))
        regrouped = frozenset(event.regrouped)
        for record in tuple(self._records.values()) if regrouped else ():
            if record.is_running_on(regrouped):
                self._put(replace(record, strayed=True, checked=False, check=None))
        if event.requeue_all:
            self._queue.requeue_all()
            for gang_id in self._stranded:
                self._put(without_block(replace(self._records[gang_id], no_room=None)))
            self._stranded.clear()
        return ()

    def _write_refused(self, event: WriteRefused, now_s: float) -> Iterable[Instruction]:
        record = self._records.get(event.id)
        if record is not None:
            given = refused_writes(record.given, event, now_s, self._settings)
            self._put(replace(record, given=given))
        elif self._unplanned.refuse(event, now_s):
            self._touched[event.id] = None
        return ()

    _HANDLERS: Mapping[type, Callable[..., Iterable[Instruction]]] = {
        Observed: _observed,
        GangUnreadable: _unreadable,
        Vanished: _vanished,
        Leading: _took_over,
        Planned: _planned,
        Refused: _refused,
        Checked: _checked,
        CapacityChanged: _capacity_changed,
        WriteRefused: _write_refused,
    }

    # Decisions

    def _settle(self, record: Record, now_s: float) -> list[Instruction]:
        """Return the instructions that one gang needs now."""
        record = follow_unbound_pods(record, now_s, self._settings)
        record = without_stuck_places(record)
        need = placement_need(record)
        record, asked = self._asking(record, need, now_s)
        progress = progress_of(record)
        check = self._questions.check(record, progress, now_s)
        if check is not None:
            record = replace(record, check=check.ask)
        pending = unexpired_writes(record.given, now_s)
        want = next_writes(record, progress, pending)
        late_s = now_s + self._settings.given_s
        writes, kept = issue_writes(record.given, want, pending=pending, late_s=late_s)
        record, reports = self._reporting(replace(record, given=kept), need)
        self._store(record)
        self._remind(record, now_s)
        return [*asked, *writes, *([check] if check is not None else []), *reports]

    def _put_aside(self, gang: Gang, error: ObjectError, now_s: float) -> None:
        """Set a gang aside for an error: nothing is planned for it before it is another one."""
        record = self._records.get(gang.id)
        if record is not None:
            self._forget(record)
        given = record.given if record is not None else None
        self._unplanned.put_aside(gang, error, now_s, given)
        self._touched[gang.id] = None

    def _asking(self, record: Record, need: Need, now_s: float) -> tuple[Record, Instructions]:
        """Return the record with its placement requested, or with its gang added to the queue."""
        gang, asked = record.gang, record.asked
        if asked is not None and (asked.until_s <= now_s or not answers(asked, need)):
            if self._turn == gang.id:
                self._turn = None
            record = replace(record, asked=None)  # a late answer will be released
        direct = need if isinstance(need, PlacementNeed) and not need.in_queue else None
        if not isinstance(need, PlacementNeed) or need.purpose is Purpose.FRESH:
            record = replace(record, no_room=None)
        if need is direct or not isinstance(need, PlacementNeed):
            if record.queued_since_s is not None:
                self._queue.leave(gang.id)
                record = replace(record, queued_since_s=None)
        else:
            if record.queued_since_s is None:
                record = replace(record, queued_since_s=now_s)
            self._queue.join(gang, queue_request(record, need, now_s, self._settings))
        if direct is None or record.asked is not None or was_refused(record, direct):
            return record, ()
        pending = self._questions.place(record, direct, now_s)
        return replace(record, asked=pending), (pending.place,)

    def _ask_for_next(self, now_s: float) -> Iterator[Instruction]:
        """Yield the request of the gang that is next in the queue, unless one is pending."""
        while self._turn is None and (turn := self._queue.next()) is not None:
            found = attempt(partial(self._ask_in_turn, turn, now_s))
            if not isinstance(found, ObjectError):
                yield found
                return
            self._put_aside(self._records[turn.id].gang, found, now_s)

    def _ask_in_turn(self, turn: QueueTurn, now_s: float) -> Instruction:
        """Return the request of the gang whose turn it is, and note that it is pending."""
        asked = self._questions.place_in_turn(self._records[turn.id], turn, now_s)
        record = replace(self._records[turn.id], asked=asked)
        self._store(record)
        self._remind(record, now_s)
        self._turn = turn.id
        return asked.place

    def _reporting(self, record: Record, need: Need) -> tuple[Record, Instructions]:
        """Return the record with its state marked as reported, and the report if it has changed.

        A gang that may be next is reported after this step, an undecided one once it is decided.
        """
        if is_undecided(record, need):
            return record, ()
        found = state_of(record, self._queue, need)
        if found[0] is not GangState.IN_LINE:
            return with_report(record, found)
        self._unreported[record.gang.id] = None
        return record, ()

    def _report_rest(self, now_s: float) -> Iterator[Instruction]:
        """Report the gangs that were not next in this step, once no placement is pending."""
        if self._turn is not None:
            return
        unreported, self._unreported = self._unreported, {}
        for record in filter(None, map(self._records.get, unreported)):
            found = attempt(partial(self._report_state, record))
            if isinstance(found, ObjectError):
                self._put_aside(record.gang, found, now_s)
            else:
                self._store(found[0])
                yield from found[1]

    def _report_state(self, record: Record) -> tuple[Record, Instructions]:
        return self._reporting(record, placement_need(record))

    # Checks

    def validate(self) -> None:
        """Raise `BrokenInvariantError` with the first invariant that does not hold.

        O(members of all gangs). Call it between events, not inside of one.
        """
        for record in self._records.values():
            for broken, what in invariants(record):
                require(not broken, f"gangs: {record.gang.id}: {what}")
        for broken, what in self._broken():
            require(not broken, f"gangs: {what}")

    def _broken(self) -> Iterator[tuple[bool, str]]:
        """Yield each invariant of all gangs as (does it fail, what fails)."""
        indexed = self._planned_nodes.matches(self._records.values())
        yield not indexed, "the index of gangs by node names others"
        yield self._leading and bool(self._touched), "a gang was left unsettled"
        yield from machine_invariants(self.state(), self._queue)

    # Records

    def _put(self, record: Record) -> None:
        """Store a record, and mark its gang to be settled in this step."""
        self._store(record)
        self._touched[record.gang.id] = None

    def _store(self, record: Record) -> None:
        gang_id = record.gang.id
        before, self._records[gang_id] = self._records.get(gang_id), record
        if before is None or before.plan is not record.plan or before.gang is not record.gang:
            self._planned_nodes.follow(gang_id, record)

    def _forget(self, record: Record) -> None:
        gang_id = record.gang.id
        del self._records[gang_id]
        self._queue.leave(gang_id)
        self._planned_nodes.follow(gang_id, None)
        self._stranded.pop(gang_id, None)
        self._unreported.pop(gang_id, None)
        if self._turn == gang_id:
            self._turn = None

    def _answered(self, event: Planned | Refused) -> Record | None:
        """Return the record that waits for this answer; None if the answer is too late."""
        record = self._records.get(event.id)
        if record is None or record.asked is None or record.asked.place.ask != event.ask:
            return None
        if self._turn == event.id:
            self._turn = None
        return record

    def _strand(self, record: Record, text: str) -> None:
        assert record.asked is not None, "it was answered"  # noqa: S101 - for the type checker
        self._stranded[record.gang.id] = None
        self._put(replace(record, asked=None, no_room=with_refusal(record, text)))

    def _remind(self, record: Record, now_s: float) -> None:
        """Set when to settle the gang again: at the next time that changes something for it."""
        times = (each for each in due_times(record, self._settings) if each > now_s)
        if (due_s := min(times, default=None)) is not None:
            self._reminders.put(record.gang.id, due_s, now_s)
