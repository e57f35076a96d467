"""Gangs from their pods to their places: a pure machine, events in and instructions out.

Each gang is told whole each time it changes (`Observed`), and compared with its plan: what is not
there yet is given as an instruction, what is under way is not given again. So the machine has no
steps to lose: a write that failed, a pod that came again, a leader that died between two writes are
a difference like any other. `steps` has the order of the writes and why it is safe, `asks` when
which placement is needed, `line` whose turn it is, `record` what is known of one gang.

Nothing here reads a clock: the same events at the same times give the same instructions (`replay`).

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
from dataclasses import dataclass, replace

from topo.gangs.machine.deadlines import Deadlines
from topo.gangs.machine.dispatch import Times, awaited, given_now, still_under_way, wanted_of_gone
from topo.gangs.machine.events import (
    CapacityChanged,
    Checked,
    Event,
    Leading,
    Observed,
    Planned,
    Refused,
    Vanished,
    WriteRefused,
)
from topo.gangs.machine.gang import GangId
from topo.gangs.machine.instructions import Instruction, Place, Release, ReportStatus
from topo.gangs.machine.invariants import invariants
from topo.gangs.machine.pending_queue import PendingQueue, Shape
from topo.gangs.machine.placement_requests import (
    PlacementNeed,
    asked_in_vain,
    check,
    is_for,
    is_in_vain,
    needed,
    place,
    request_of,
)
from topo.gangs.machine.planned_nodes import PlannedNodes
from topo.gangs.machine.pod_notes import notes
from topo.gangs.machine.record import (
    Asked,
    Given,
    Gone,
    Key,
    Purpose,
    Record,
    adopted,
    drop_split_groups,
    observed,
    unplanned,
)
from topo.gangs.machine.settings import BY_DEFAULT, GangSettings
from topo.gangs.machine.status import state_of, status_of
from topo.gangs.machine.write_order import wanted
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState
from topo.model.errors import require
from topo.model.ids import NodeName
from topo.placement.job.request import PlacementMode


@dataclass(frozen=True, slots=True)
class GangsState:
    """All that a machine knows, as a value; equal machines have equal ones."""

    leading: bool
    records: tuple[Record, ...]
    gone: tuple[Gone, ...]
    turn: GangId | None
    head: GangId | None
    kept: tuple[NodeName, ...]
    stranded: tuple[GangId, ...]


class Gangs:
    """All gangs there are. Not thread-safe: one shell owns it, while it leads."""

    def __init__(self, settings: GangSettings = BY_DEFAULT) -> None:
        self._settings = settings
        self._leading = False
        self._records: dict[GangId, Record] = {}
        self._gone: dict[GangId, Gone] = {}
        self._line = PendingQueue(settings.order)
        self._turn: GangId | None = None
        """The gang in line whose placement is being asked for."""
        self._asks = 0
        self._planned_nodes = PlannedNodes()
        self._stranded: dict[GangId, None] = {}
        """Gangs that wait for room outside the line."""
        self._unreported: dict[GangId, None] = {}
        """Gangs that were told no more than that their turn comes."""
        self._reminders = Deadlines()
        self._touched: dict[GangId, None] = {}

    # What there is

    def __len__(self) -> int:
        return len(self._records)

    @property
    def next_s(self) -> float | None:
        """When `advance` is to be called at the latest, events or not; None: only with events."""
        return self._reminders.next_s

    def status(self, gang_id: GangId) -> GangStatus | None:
        """Return the status of a gang, None for one that is not known; O(gangs)."""
        record = self._records.get(gang_id)
        return status_of(record, self._line) if record is not None else None

    def statuses(self) -> Iterator[tuple[GangId, GangStatus]]:
        """Yield the status of every gang, in the order in which they came.

        O(gangs²) for those in the queue: for people who ask.
        """
        return ((each, status_of(record, self._line)) for each, record in self._records.items())

    def state(self) -> GangsState:
        """All of it as a value; O(gangs)."""
        return GangsState(
            self._leading,
            tuple(self._records.values()),
            tuple(self._gone.values()),
            self._turn,
            self._line.head,
            self._line.kept,
            tuple(self._stranded),
        )

    # What happens

    def advance(self, now_s: float, *events: Event) -> tuple[Instruction, ...]:
        """Take up the time and the events in their order; what is to be done now.

        Until `Leading` it only takes up. O(members) for each gang that an event is about, O(log
        gangs) for the line, O(distinct requests) where there is more room.
        """
        for gang_id in self._reminders.take(now_s):
            if gang_id in self._records or gang_id in self._gone:
                self._touched[gang_id] = None
        out: list[Instruction] = []
        for event in events:
            out += self._HANDLERS[type(event)](self, event, now_s)
        if self._leading:
            for gang_id in self._touched:
                out += self._settle(gang_id, now_s)
            self._touched.clear()
            out += self._next_turn(now_s)
            out += self._report_rest()
        return tuple(out)

    def _observed(self, event: Observed, _now_s: float) -> Iterable[Instruction]:
        gang = event.gang
        record = self._records.get(gang.id)
        self._gone.pop(gang.id, None)
        self._put(observed(record, gang) if record is not None else adopted(gang))
        return ()

    def _vanished(self, event: Vanished, _now_s: float) -> Iterable[Instruction]:
        record, gone = self._records.get(event.id), self._gone.get(event.id)
        if record is not None:
            self._forget(record)
        self._gone[event.id] = Gone(event, gone.given if gone is not None else {})
        self._touched[event.id] = None
        return ()

    def _took_over(self, _event: Leading, _now_s: float) -> Iterable[Instruction]:
        self._leading = True
        self._touched |= dict.fromkeys((*self._records, *self._gone))
        return ()

    def _planned(self, event: Planned, _now_s: float) -> Iterable[Instruction]:
        record = self._answered(event)
        if record is None:
            known = self._records.get(event.id)
            in_use = known is not None and event.hold in known.holds()
            return () if in_use else (Release(event.id, event.hold),)
        asked = record.asked
        assert asked is not None, "it was answered"  # noqa: S101 - for the type checker
        may_split = asked.place.request.mode is PlacementMode.PREFERRED
        split = event.mode is PlacementMode.PREFERRED and not may_split
        require(not split, f"gangs: a plan of {event.id} splits groups that are required whole")
        new = notes(record, event)
        if new is None:
            self._strand(record, "the pods that wait select different nodes")
            return (Release(event.id, event.hold),)
        lost = {node: why for node, why in record.lost.items() if node not in event.nodes}
        plan = {**record.plan, **new}
        no_room = None
        if event.evicts and asked.purpose is Purpose.WHOLE:
            no_room = asked_in_vain(record, "there is none but over others")
            self._stranded[event.id] = None
        record = replace(record, plan=plan, lost=lost, evicts=event.evicts, no_room=no_room)
        self._put(replace(record, asked=None, check=None, checked=False))
        return ()

    def _refused(self, event: Refused, _now_s: float) -> Iterable[Instruction]:
        record = self._answered(event)
        if record is None:
            return ()
        assert record.asked is not None, "it was answered"  # noqa: S101 - for the type checker
        if event.id in self._line and record.asked.purpose in {Purpose.FRESH, Purpose.GROWTH}:
            self._line.refuse(event)
            self._put(replace(record, asked=None))
        else:
            self._strand(record, event.text)
        return ()

    def _checked(self, event: Checked, _now_s: float) -> Iterable[Instruction]:
        record = self._records.get(event.id)
        if record is None or record.check != event.ask:
            return ()
        found = replace(record, check=None, checked=True, lost=dict(event.lost))
        found = replace(found, blocked=event.blocked, strayed=False, unproven=False)
        if found.released:
            found = drop_split_groups(found, event)
        elif event.lost or event.blocked or event.split or event.apart:
            found = unplanned(found)
        if event.blocked:
            self._stranded[event.id] = None
        self._put(found)
        return ()

    def _capacity_changed(self, event: CapacityChanged, _now_s: float) -> Iterable[Instruction]:
        for node in event.nodes:
            for gang_id in self._planned_nodes.gangs(node):
                self._put(replace(self._records[gang_id], checked=False, check=None))
        regrouped = frozenset(event.regrouped)
        for record in tuple(self._records.values()) if regrouped else ():
            if record.runs_on(regrouped):
                self._put(replace(record, strayed=True, checked=False, check=None))
        if event.requeue_all:
            self._line.requeue_all()
            for gang_id in self._stranded:
                self._put(replace(self._records[gang_id], no_room=None, blocked=""))
            self._stranded.clear()
        return ()

    def _write_refused(self, event: WriteRefused, now_s: float) -> Iterable[Instruction]:
        record, gone = self._records.get(event.id), self._gone.get(event.id)
        known = record or gone
        if known is None:
            return ()
        given: dict[Key, Given] = dict(known.given)
        for key in (("pod", event.subject), ("node", event.subject)):
            if key in given and given[key].version == event.version:
                refusals = given[key].refusals + 1
                until_s = now_s + self._settings.refused_s(refusals)
                given[key] = replace(given[key], until_s=until_s, refusals=refusals, why=event.why)
        if record is not None:
            self._put(replace(record, given=given))
        elif gone is not None:
            self._gone[event.id] = replace(gone, given=given)
            self._touched[event.id] = None
        return ()

    _HANDLERS: Mapping[type, Callable[..., Iterable[Instruction]]] = {
        Observed: _observed,
        Vanished: _vanished,
        Leading: _took_over,
        Planned: _planned,
        Refused: _refused,
        Checked: _checked,
        CapacityChanged: _capacity_changed,
        WriteRefused: _write_refused,
    }

    # What is to be done

    def _settle(self, gang_id: GangId, now_s: float) -> Iterator[Instruction]:
        """What one gang needs now."""
        times = Times(now_s, now_s + self._settings.given_s)
        if gang_id in self._gone:
            yield from self._settle_gone(self._gone[gang_id], times)
        if gang_id not in self._records:
            return
        record, asked = self._asking(self._records[gang_id], now_s)
        record, looks = self._checking(record, now_s)
        given = still_under_way(record.given, record.gang)
        writes, kept = given_now(given, wanted(record, awaited(given, now_s)), gang_id, times)
        record, reports = self._reporting(replace(record, given=kept))
        self._store(record)
        self._remind(record, now_s)
        yield from (*asked, *writes, *looks, *reports)

    def _settle_gone(self, gone: Gone, times: Times) -> Iterator[Instruction]:
        left = gone.left
        want = wanted_of_gone(left)
        if not want:
            del self._gone[left.id]
            return
        under_way = {key: each for key, each in gone.given.items() if key in want}
        writes, kept = given_now(under_way, want, left.id, times)
        self._gone[left.id] = Gone(left, kept)
        due_s = min(each.until_s for each in kept.values())
        self._reminders.put(left.id, due_s, times.now_s)
        yield from writes

    def _asking(self, record: Record, now_s: float) -> tuple[Record, tuple[Instruction, ...]]:
        """The record with the placement that it needs asked for, or its gang in the line."""
        gang, need, asked = record.gang, needed(record), record.asked
        if asked is not None and (asked.until_s <= now_s or not is_for(asked, need)):
            record = self._void(record)
        direct = need if isinstance(need, PlacementNeed) and not need.in_line else None
        if not isinstance(need, PlacementNeed) or need.purpose is Purpose.FRESH:
            record = replace(record, no_room=None)
        if need is direct or not isinstance(need, PlacementNeed):
            self._line.leave(gang.id)
            record = replace(record, in_line_s=None)
        else:
            if record.in_line_s is None:
                record = replace(record, in_line_s=now_s)
            self._line.join(gang, self._shape(record, need, now_s))
        if direct is None or record.asked is not None or is_in_vain(record, direct):
            return record, ()
        record = self._asked(record, direct, now_s)
        return record, (record.asked.place,) if record.asked is not None else ()

    def _shape(self, record: Record, need: PlacementNeed, now_s: float) -> Shape:
        """What a gang in line asks for by now."""
        gang, due_s = record.gang, self._preempts_s(record)
        request = request_of(gang, now_s)
        alone = len(need.members) < request.pods
        over = gang.priority if due_s is not None and due_s <= now_s and not alone else None
        return Shape(request, need.uids if alone else frozenset(), over)

    def _preempts_s(self, record: Record) -> float | None:
        """When a gang in line may be planned over others; None: never."""
        if self._settings.preempt_s is None or record.in_line_s is None:
            return None
        may = record.gang.preempts and not record.released
        return record.in_line_s + self._settings.preempt_s if may else None

    def _asked(self, record: Record, need: PlacementNeed, now_s: float) -> Record:
        self._asks += 1
        asked = self._apart(place(record, need, now_s, ask=self._asks))
        return replace(record, asked=Asked(need.purpose, asked, now_s + self._settings.given_s))

    def _apart(self, asked: Place) -> Place:
        """The question, kept off what other gangs are planned over: that is booked nowhere."""
        if asked.over is None:
            return asked
        return replace(asked, spoken_for=self._planned_nodes.of_others(asked.id))

    def _next_turn(self, now_s: float) -> Iterator[Instruction]:
        """Asks for the gang whose turn it is, while no other one's answer is awaited."""
        turn = self._line.next() if self._turn is None else None
        if turn is None:
            return
        record = self._records[turn.id]
        need = needed(record)
        require(isinstance(need, PlacementNeed), f"gangs: {turn.id} is in line and needs nothing")
        assert isinstance(need, PlacementNeed)  # noqa: S101 - for the type checker
        record = self._asked(record, need, now_s)
        assert record.asked is not None  # noqa: S101 - for the type checker
        asked = self._apart(
            replace(record.asked.place, without=turn.without, reserve=turn.reserve, over=turn.over)
        )
        self._turn = turn.id
        self._store(replace(record, asked=replace(record.asked, place=asked)))
        self._remind(record, now_s)
        yield asked

    def _checking(self, record: Record, now_s: float) -> tuple[Record, tuple[Instruction, ...]]:
        """The record with a look at its nodes under way, where one is due."""
        asked = check(record, now_s, ask=self._asks + 1)
        if asked is None:
            return record, ()
        self._asks = asked.ask
        return replace(record, check=asked.ask), (asked,)

    def _reporting(self, record: Record) -> tuple[Record, tuple[Instruction, ...]]:
        """Return the record with its state as reported, and the report where there is news.

        A gang whose turn may come in this very step is reported after it (`_report_rest`); of
        missing pods only the first count is, because the others follow within moments.
        """
        found, before = state_of(record, self._line), record.reported
        state = found[0]
        if state is GangState.IN_LINE:
            self._unreported[record.gang.id] = None
            return record, ()
        is_counted = state is GangState.PODS_MISSING and before is not None and before[0] is state
        if found == before or is_counted:
            return record, ()
        return replace(record, reported=found), (ReportStatus(record.gang.id, *found),)

    def _report_rest(self) -> Iterator[Instruction]:
        """Report the gangs whose turn did not come, once no placement is being asked for."""
        if self._turn is not None:
            return
        unreported, self._unreported = self._unreported, {}
        for gang_id in unreported:
            if gang_id in self._records:
                record, reports = self._reporting(self._records[gang_id])
                self._store(record)
                yield from reports

    # Checks

    def validate(self) -> None:
        """Raises `BrokenInvariantError` with the first invariant that does not hold.

        O(members of all gangs). To be called between events, not while one is taken up.
        """
        for record in self._records.values():
            for broken, what in invariants(record):
                require(not broken, f"gangs: {record.gang.id}: {what}")
        for broken, what in self._broken():
            require(not broken, f"gangs: {what}")

    def _broken(self) -> Iterator[tuple[bool, str]]:
        """Each invariant as (does it fail, what fails)."""
        records = self._records
        indexed = self._planned_nodes.is_of(records.values())
        yield not indexed, "the index of gangs by node names others"
        yield not records.keys().isdisjoint(self._gone), "a gang is there and gone"
        yield self._turn is not None and records[self._turn].asked is None, "nothing is asked"
        yield not self._stranded.keys() <= records.keys(), "a gang that is gone waits for room"
        if not self._leading:
            return
        needs = {gang_id: needed(record) for gang_id, record in records.items()}
        in_line = {
            g for g, need in needs.items() if isinstance(need, PlacementNeed) and need.in_line
        }
        yield in_line != set(self._line.waiting()), "the line is not of those that need a turn"
        yield bool(self._touched), "a gang was left unsettled"
        yield from self._line.invariants()

    # How it is kept

    def _put(self, record: Record) -> None:
        """Keeps a record that is to be settled."""
        self._store(record)
        self._touched[record.gang.id] = None

    def _store(self, record: Record) -> None:
        gang_id = record.gang.id
        self._planned_nodes.follow(gang_id, self._records.get(gang_id), record)
        self._records[gang_id] = record

    def _forget(self, record: Record) -> None:
        gang_id = record.gang.id
        self._line.leave(gang_id)
        self._planned_nodes.follow(gang_id, self._records.pop(gang_id), None)
        self._stranded.pop(gang_id, None)
        self._unreported.pop(gang_id, None)
        if self._turn == gang_id:
            self._turn = None

    def _answered(self, event: Planned | Refused) -> Record | None:
        """The gang that waits for this answer, which it has then; None for one that is late."""
        record = self._records.get(event.id)
        if record is None or record.asked is None or record.asked.place.ask != event.ask:
            return None
        if self._turn == event.id:
            self._turn = None
        return record

    def _void(self, record: Record) -> Record:
        """The record without what it asked for; a late answer is given back."""
        if self._turn == record.gang.id:
            self._turn = None
        return replace(record, asked=None)

    def _strand(self, record: Record, text: str) -> None:
        assert record.asked is not None, "it was answered"  # noqa: S101 - for the type checker
        self._stranded[record.gang.id] = None
        self._put(replace(record, asked=None, no_room=asked_in_vain(record, text)))

    def _remind(self, record: Record, now_s: float) -> None:
        """Comes back to a gang when a write, an answer or its wait for whole groups is over."""
        times = [given.until_s for given in record.given.values()]
        if record.asked is not None:
            times.append(record.asked.until_s)
        gang = record.gang
        if gang.wait_s is not None:
            times.append(gang.created_s + gang.wait_s)
        if (preempts_s := self._preempts_s(record)) is not None:
            times.append(preempts_s)
        due_s = min((each for each in times if each > now_s), default=None)
        if due_s is not None:
            self._reminders.put(gang.id, due_s, now_s)
