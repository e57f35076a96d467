"""The course of ProvisioningRequests: from the wish to booked groups, until the time is over.

    New → Accepted → Provisioned → BookingExpired
                   ↘ Failed      ↘ CapacityRevoked

Each request is observed as a whole: its object, and its booking. What is due follows from these two
alone, so a leader that died anywhere is a difference like any other.

Why no request is Provisioned without its capacity. The condition is written only for a booking that
is on disk and that lasts longer than the condition promises (`SLACK_S`). A booking ends only after
the object says so: expired, revoked, failed, or gone. A leader that finds a promise without a
booking books the recorded nodes again, which the bookings refuse where anybody else has a GPU of
them; then the capacity is revoked.

Why a write of a leader that is none any more does no harm. Each names the version of the object
that it was decided on, and is refused on any other. A promise of a dead leader could still arrive
where the next one knows no booking for it. So that one first has a new version of each such request
(`_LOOKING`), and books nothing for anybody before (`has_begun`): for `FENCE_S`, after which no call
of a dead leader can arrive. A job that is held before its quota is promised nothing by being let
go, so that none is waited for.

Why an error of one request is its own. A step that raises is undone for that request, which is set
aside: nothing is decided about it until it, or what it asks for, changes. Its record is one frozen
value, so there is nothing else to undo. Nobody waits for a request that is set aside (`_fence`): a
promise of an earlier leader that reaches it later is one without a booking, which is revoked or
booked again as any other one.

Cost: O(1) for an event, O(requests that wait) if there is more room.

Example: a request whose groups fit.
    TermBegun, RequestObserved(no condition)    WriteStatus Accepted
    RequestObserved(Accepted)                   Book
    Booked(hold h)                              WriteStatus Provisioned, the groups in its details
    RequestObserved(Provisioned, hold h)        nothing until its time is over
    advance(600 s later)                        WriteStatus BookingExpired
    RequestObserved(BookingExpired, hold h)     EndBooking h
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from topo.model.errors import Refusal, require
from topo.model.isolation import ObjectError, attempt
from topo.placement.booking.holds import HoldId
from topo.provisioning.course import Phase, ProvisioningRequest, RequestUid, conditions_after
from topo.provisioning.messages import (
    Book,
    Booked,
    EndBooking,
    Event,
    HandlingFailed,
    Held,
    Instruction,
    NoRoom,
    Rebook,
    RequestObserved,
    RequestVanished,
    RoomGrew,
    StatusRefused,
    Tell,
    TellSetAside,
    TermBegun,
    WriteStatus,
)
from topo.provisioning.record import read_nodes
from topo.provisioning.terms import Awaited, NothingToBook, Terms

FENCE_S = 90.0
"""So long a new leader waits for new versions of requests that may yet be promised something. The
API server ends each call within a minute, those of the leader before, too.
"""
SLACK_S = 120.0
"""So much longer than promised a booking lasts: its end is written first, and a write that fails is
tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """What is known of a request.

    `written`: what was written for the version that is known, and is not seen yet. `again_s`: when
    a refused write is tried again. `refused`: why there is no room, until there is more. `told`:
    what was told of that. `error`: why it is set aside.
    """

    seen: RequestObserved
    is_booking: bool = False
    written: Phase | None = None
    again_s: float = 0.0
    refused: NoRoom | None = None
    told: str = ""
    error: ObjectError | None = None

    @property
    def is_refused_for_good(self) -> bool:
        """Whether no room helps. One that is held is held on: another cluster may come."""
        return self.refused is not None and self.refused.never and not self.request.is_gated

    @property
    def request(self) -> ProvisioningRequest:
        """The request."""
        return self.seen.request


class Provisioning:
    """All requests of our class. Not thread-safe: one controller owns it while it leads."""

    def __init__(self) -> None:
        self._leading = False
        self._records: dict[RequestUid, RequestRecord] = {}
        self._touched: dict[RequestUid, None] = {}
        self._unfenced: dict[RequestUid, None] = {}
        """Requests that may yet be promised what an earlier leader had booked."""
        self._fenced_s = 0.0
        """The Unix time from which none of them may."""

    # Queries

    @property
    def has_begun(self) -> bool:
        """Whether it leads, and no promise of an earlier leader can arrive any more."""
        return self._leading and not self._unfenced

    @property
    def awaited(self) -> Iterator[str]:
        """The names of requests without whose new versions nothing is booked for anybody."""
        return (self._records[uid].request.full_name for uid in self._unfenced)

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> Iterable[RequestRecord]:
        """Return what is known of each request."""
        return self._records.values()

    def find(self, uid: RequestUid) -> RequestRecord | None:
        """Return what is known of a request."""
        return self._records.get(uid)

    @property
    def next_s(self) -> float | None:
        """The Unix time at which something is due without an event; None for never. O(requests)."""
        due = (_due_s(each) for each in self._records.values() if each.error is None)
        times = [each for each in due if isinstance(each, float)]
        return min([*times, self._fenced_s] if self._unfenced else times, default=None)

    # Events

    def advance(self, now_s: float, *events: Event) -> tuple[Instruction, ...]:
        """Apply the time and the events in their order; return the instructions that follow.

        Before `TermBegun` events are only recorded. Bookings are asked for in the order in which
        the requests were made.
        """
        out: list[Instruction] = []
        for event in events:
            out += self._HANDLERS[type(event)](self, event, now_s)
        if not self._leading:
            return ()
        if now_s >= self._fenced_s:
            for uid in tuple(self._unfenced):
                self._fence(uid)
        for uid, record in self._records.items():
            due_s = _due_s(record) if record.error is None else None
            if isinstance(due_s, ObjectError) or (due_s is not None and due_s <= now_s):
                self._touched[uid] = None
        ordered = sorted(
            (self._records[uid] for uid in self._touched if uid in self._records),
            key=lambda record: (record.request.created_s, record.request.uid),
        )
        self._touched.clear()
        for record in ordered:
            if record.error is None:
                out += self._settle_alone(record, now_s)
        return tuple(out)

    def _observed(self, event: RequestObserved, _now_s: float) -> Iterable[Instruction]:
        uid = event.request.uid
        before = self._records.get(uid)
        if before is None:
            record = RequestRecord(seen=event)
        elif before.request.version != event.request.version:
            record = replace(before, seen=event, written=None, again_s=0.0, error=None)
            self._fence(uid)
        elif before.error is not None and before.seen.asked != event.asked:
            record = replace(before, seen=event, error=None)
        else:
            record = replace(before, seen=event)
        self._put(record)
        return ()

    def _failed(self, event: HandlingFailed, _now_s: float) -> Iterable[Instruction]:
        record = self._records.get(event.uid)
        return () if record is None else (self._set_aside(record, event.error),)

    def _vanished(self, event: RequestVanished, _now_s: float) -> Iterable[Instruction]:
        self._records.pop(event.uid, None)
        self._fence(event.uid)
        return (EndBooking(event.uid, event.hold),) if event.hold is not None else ()

    def _took_over(self, _event: TermBegun, now_s: float) -> Iterable[Instruction]:
        self._leading, self._fenced_s = True, now_s + FENCE_S
        self._touched |= dict.fromkeys(self._records)
        for uid, record in self._records.items():
            waits = record.request.phase is Phase.ACCEPTED and record.seen.held is None
            is_set_aside = record.error is not None
            if waits and not (record.request.is_leaving or record.request.is_gated or is_set_aside):
                self._unfenced[uid] = None
        return ()

    def _booked(self, event: Booked, _now_s: float) -> Iterable[Instruction]:
        record = self._records.get(event.uid)
        if record is None:  # it went while its groups were searched
            return (EndBooking(event.uid, event.held.hold),)
        seen = replace(record.seen, held=event.held, given_up="", broken="")
        self._put(replace(record, seen=seen, is_booking=False, refused=None))
        return ()

    def _no_room(self, event: NoRoom, _now_s: float) -> Iterable[Instruction]:
        record = self._records.get(event.uid)
        if record is not None:
            self._put(replace(record, is_booking=False, refused=event))
        return ()

    def _room_grew(self, _event: RoomGrew, _now_s: float) -> Iterable[Instruction]:
        for record in tuple(self._records.values()):
            waits = record.request.phase is Phase.ACCEPTED
            if waits and record.refused is not None and not record.is_refused_for_good:
                self._put(replace(record, refused=None))
        return ()

    def _write_refused(self, event: StatusRefused, now_s: float) -> Iterable[Instruction]:
        record = self._records.get(event.uid)
        if record is not None and record.request.version == event.version:
            self._put(replace(record, written=None, again_s=event.again_s))
            # Refused for another reason than its version, as the write of a dead leader would be.
            if event.again_s > now_s:
                self._fence(event.uid)
        return ()

    def _fence(self, uid: RequestUid) -> None:
        """Note that no earlier promise can reach a request; after the last of them all go on."""
        if uid not in self._unfenced:
            return
        del self._unfenced[uid]
        if not self._unfenced:
            self._touched |= dict.fromkeys(self._records)

    _HANDLERS: Mapping[type, Callable[..., Iterable[Instruction]]] = {
        RequestObserved: _observed,
        RequestVanished: _vanished,
        TermBegun: _took_over,
        Booked: _booked,
        NoRoom: _no_room,
        RoomGrew: _room_grew,
        StatusRefused: _write_refused,
        HandlingFailed: _failed,
    }

    # Decisions

    def _settle_alone(self, record: RequestRecord, now_s: float) -> tuple[Instruction, ...]:
        """Return what a request needs now; it is set aside if finding that out raises an error."""

        def settle() -> tuple[Instruction, ...]:
            due_s = _due_s(record)
            if isinstance(due_s, ObjectError):
                return (self._set_aside(record, due_s),)
            return tuple(self._settle(record, now_s))

        found = attempt(settle)
        return (self._set_aside(record, found),) if isinstance(found, ObjectError) else found

    def _set_aside(self, record: RequestRecord, error: ObjectError) -> TellSetAside:
        """Set a request aside as it was before the step that failed."""
        self._put(replace(record, is_booking=False, error=error), is_settled=True)
        self._fence(record.request.uid)
        return TellSetAside(record.request, error)

    def _settle(self, record: RequestRecord, now_s: float) -> Iterator[Instruction]:
        """Yield what a request needs now: one write or one booking, and the end of one."""
        seen, request = record.seen, record.request
        phase = request.phase
        if request.is_leaving or phase.is_over or (request.is_let_go and seen.broken):
            if seen.held is not None:
                yield self._end_booking(record, seen.held.hold)
            return
        if request.is_let_go:
            return
        if record.written is not None or record.is_booking or now_s < record.again_s:
            return
        if record.again_s:
            record = replace(record, again_s=0.0)
            self._put(record, is_settled=True)
        if phase is Phase.PROVISIONED:
            yield from self._settle_provisioned(record, now_s)
        elif isinstance(seen.asked, NothingToBook):
            yield self._write(record, Phase.PROVISIONED, seen.asked.text, now_s)
        elif phase is Phase.ACCEPTED:
            yield from self._settle_accepted(record, now_s)
        else:
            yield from self._settle_new(record, now_s)

    def _settle_new(self, record: RequestRecord, now_s: float) -> Iterator[Instruction]:
        asked = record.seen.asked
        if isinstance(asked, Refusal):
            yield self._write(record, Phase.FAILED, str(asked), now_s, is_final=True)
        elif isinstance(asked, Terms):
            yield self._write(record, Phase.ACCEPTED, "", now_s)
        elif now_s >= _valid_until_s(record.request):
            yield self._write(record, Phase.FAILED, asked.text, now_s)

    def _settle_accepted(self, record: RequestRecord, now_s: float) -> Iterator[Instruction]:
        held, request = record.seen.held, record.request
        if held is None:
            yield from self._settle_waiting(record, now_s)
        elif not record.seen.broken and held.until_s >= now_s + request.times.booking_s:
            yield self._write(record, Phase.PROVISIONED, _PROMISE, now_s, held=held)
        else:  # it would end before what is promised, or has ended by a cable
            yield self._end_booking(record, held.hold)
            yield from self._settle_waiting(self._records[request.uid], now_s)

    def _settle_waiting(self, record: RequestRecord, now_s: float) -> Iterator[Instruction]:
        """Yield what is due for a request that is accepted and has no booking."""
        asked, request, refused = record.seen.asked, record.request, record.refused
        waiting, is_late = request.condition(Phase.PROVISIONED), now_s >= _valid_until_s(request)
        said = waiting.message if waiting is not None else ""
        if request.uid in self._unfenced:
            text = next(each for each in _LOOKING if each != said)
            yield self._write(record, Phase.ACCEPTED, text, now_s)
        elif isinstance(asked, Refusal):
            yield self._write(record, Phase.FAILED, str(asked), now_s, is_final=True)
        elif refused is not None:
            is_final = record.is_refused_for_good
            if is_final or is_late:
                yield self._write(record, Phase.FAILED, refused.text, now_s, is_final=is_final)
            else:
                yield from self._say_why(record, refused.text, said, now_s)
        elif isinstance(asked, Awaited):
            if is_late:
                yield self._write(record, Phase.FAILED, asked.text, now_s)
        elif isinstance(asked, Terms) and not self._unfenced:
            self._put(replace(record, is_booking=True), is_settled=True)
            hold_s = request.times.booking_s + SLACK_S
            yield Book(
                request.uid,
                request.full_name,
                asked,
                hold_s,
                is_free=request.is_gated,
                workload=request.workload,
            )

    def _say_why(
        self, record: RequestRecord, text: str, said: str, now_s: float
    ) -> Iterator[WriteStatus | Tell]:
        """Yield the first reason for which a request waits; of one that is gated each other one."""
        if not record.request.is_gated:
            if said in {"", *_LOOKING}:
                yield self._write(record, Phase.ACCEPTED, text, now_s)
        elif record.told != text:
            self._put(replace(record, told=text), is_settled=True)
            yield Tell(record.request, text)

    def _settle_provisioned(self, record: RequestRecord, now_s: float) -> Iterator[Instruction]:
        seen, request = record.seen, record.request
        deadline_s = request.deadline_s
        require(deadline_s is not None, "provisioning: provisioned and without a time")
        left_s = (deadline_s or 0.0) - now_s
        if left_s <= 0:
            yield self._write(record, Phase.EXPIRED, _EXPIRED, now_s)
        elif seen.taken:
            return
        elif why := seen.broken or (seen.given_up if seen.held is None else ""):
            yield self._write(record, Phase.REVOKED, why, now_s)
        elif seen.held is None:
            yield self._recover(record, left_s, now_s)
        elif read_nodes(dict(seen.held.details)) != read_nodes(dict(request.details)):
            # Another leader wrote what it had booked, and this one has booked something else.
            yield self._end_booking(record, seen.held.hold)
            yield self._recover(self._records[request.uid], left_s, now_s)

    def _recover(self, record: RequestRecord, left_s: float, now_s: float) -> Rebook | WriteStatus:
        """Return what is due for a promise of which no booking is left."""
        request, asked = record.request, record.seen.asked
        groups = read_nodes(dict(request.details))
        if record.refused is not None:
            why = f"the booking was lost, and its nodes are not free: {record.refused.text}"
        elif groups is None or not isinstance(asked, Terms):
            why = "the booking was lost, and what was booked cannot be read any more"
        else:
            self._put(replace(record, is_booking=True), is_settled=True)
            hold_s, name = left_s + SLACK_S, request.full_name
            return Rebook(request.uid, name, asked, groups, hold_s, request.workload)
        return self._write(record, Phase.REVOKED, why, now_s)

    def _end_booking(self, record: RequestRecord, hold: HoldId) -> EndBooking:
        self._put(replace(record, seen=replace(record.seen, held=None)), is_settled=True)
        return EndBooking(record.request.uid, hold)

    def _write(
        self,
        record: RequestRecord,
        phase: Phase,
        text: str,
        now_s: float,
        *,
        held: Held | None = None,
        is_final: bool = False,
    ) -> WriteStatus:
        request = record.request
        message = text or ("" if phase is Phase.ACCEPTED else phase.value)
        self._put(replace(record, written=phase), is_settled=True)
        return WriteStatus(
            request,
            phase,
            text,
            tuple(conditions_after(request, phase, message, now_s)),
            request.details if held is None else held.details,
            held.hold if held is not None else "",
            is_final=is_final,
        )

    def _put(self, record: RequestRecord, *, is_settled: bool = False) -> None:
        uid = record.request.uid
        self._records[uid] = record
        if not is_settled:
            self._touched[uid] = None

    # Checks

    def validate(self) -> None:
        """Raise `BrokenInvariantError` with the first invariant that does not hold; O(requests)."""
        known = self._unfenced.keys() <= self._records.keys()
        require(known, "provisioning: nobody is left to be fenced, and all wait for it")
        holds = [each.seen.held.hold for each in self._records.values() if each.seen.held]
        require(len(holds) == len(set(holds)), "provisioning: two requests have one booking")
        for uid, record in self._records.items():
            require(uid == record.request.uid, f"provisioning: {uid} is filed under another name")
            require(
                not (record.is_booking and record.seen.held is not None),
                f"provisioning: {uid} is booked, and asks for a booking",
            )
            is_booked = not isinstance(record.seen.asked, NothingToBook)
            is_promised = record.written is Phase.PROVISIONED and not record.request.is_leaving
            require(
                not (is_booked and is_promised) or record.request.phase is Phase.ACCEPTED,
                f"provisioning: {uid} is promised what it had",
            )


_PROMISE = "whole groups are booked for it"
_LOOKING = ("another leader looks for whole groups", "a new leader looks for whole groups")
"""Two texts, so that each write of one is a new version."""
_EXPIRED = "the time of the booking is over; pods that have its nodes keep them"


def _valid_until_s(request: ProvisioningRequest) -> float:
    return request.created_s + request.times.valid_s


def _due_s(record: RequestRecord) -> float | ObjectError | None:
    """Return when a request changes next by time alone; None for never."""
    return attempt(lambda: min(map(float, _due_times(record)), default=None))


def _due_times(record: RequestRecord) -> Iterator[float]:
    """Yield when a request changes by time alone."""
    request = record.request
    phase = request.phase
    if request.is_leaving or request.is_let_go or phase.is_over:
        return
    if record.written is not None or record.is_booking:
        return
    if record.again_s:
        yield record.again_s
    elif phase is Phase.PROVISIONED and request.deadline_s is not None:
        yield request.deadline_s
    elif record.refused is not None or isinstance(record.seen.asked, Awaited):
        yield _valid_until_s(request)
