"""The loop that answers requests for capacity, in the leader alone: one for each kind of object.

A change only marks a request, and a marked one is observed as a whole: its object, its templates,
its booking, its pods. So this needs no history. What the machine asks for is carried out in its
order: a booking is on disk before it is written that there is one.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial

import structlog

from master.booking.advice import change_in_words
from master.booking.planner import Planner
from master.controllers.provisioning.bookings import RequestBookings
from master.controllers.provisioning.form import MESSAGE_CHARS, RequestForm
from master.controllers.provisioning.metrics import ProvisioningMetrics
from master.controllers.provisioning.terms import RequestReader
from master.kube.gang_pod import ClusterPod, GangPod, NodeWants
from master.kube.objects import EVENTS, Key
from master.kube.reflector import Listed, StoreEvent
from master.kube.schedulers.provisioning import KnownRequest, KnownTemplate
from master.kube.store import Grouped, Store, updates
from master.kube.writing.write_queue import ECHO_S
from master.kube.writing.writer import Settled, Writer
from master.kube.writing.writes import Apply, Write, WriteTarget
from master.object_errors import ObjectErrors, ObjectKind
from topo.model.conditions.master import MasterCondition
from topo.model.forest import Snapshot
from topo.model.isolation import ObjectError, attempt, attempt_async
from topo.model.rest.topology import WarningDocument
from topo.model.words import listed
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import Eligibility
from topo.provisioning.course import Phase, ProvisioningRequest, RequestUid
from topo.provisioning.machine import Provisioning
from topo.provisioning.messages import (
    Book,
    Booked,
    EndBooking,
    Event,
    HandlingFailed,
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
from topo.provisioning.terms import NothingToBook, Terms
from topo.publish.event_series import EventSeries, Reporter
from topo.publish.node_events import EventContent

GATHER_S = 0.05
LOOK_S = 1.0
"""How often bookings are compared with what is free, if that changed."""
SETTLING_POLL_S = 0.2
REFUSED_S = ECHO_S + 1
"""A write that is refused, and not for its version, is tried again after so long: then the queue of
writes sends it at once, however often it was refused."""
RETRY_S = 10.0
"""What was refused is tried again after so long also if no GPUs became free, but processors."""
PATIENCE_S = 10.0
"""So long the API server may take to list requests."""
AT_ONCE = 16
SEARCHES_A_TURN = 16
"""Searches for groups before what changed meanwhile is read. Many requests may wait, and one search
takes up to a second; what others had booked is to be ended meanwhile."""
MOST_EVENTS = 20
_ELSEWHERE = NothingToBook("its ProvisioningRequest has its groups booked")

_log = structlog.get_logger(__name__)


@dataclass
class ProvisioningController:
    """Answers the requests while this master leads.

    `errors` takes the requests that are set aside, as objects of this `kind`.
    `is_counted`: the groups and what is free are known. `is_leaving`: what is free is a part of the
    place of a gang that is going. `server_now` is Unix time by the clock of
    the API servers, which date requests and judge how long they are booked.
    """

    requests: Store[KnownRequest]
    templates: Store[KnownTemplate]
    pods: Store[ClusterPod]
    _: KW_ONLY
    form: RequestForm
    bookings: RequestBookings
    terms: RequestReader
    planner: Planner
    writer: Writer
    reporter: Reporter
    metrics: ProvisioningMetrics
    errors: ObjectErrors
    kind: ObjectKind
    is_counted: Callable[[], bool]
    is_leaving: Callable[[], bool]
    server_now: Callable[[], float]
    clock: Callable[[], float] = time.monotonic
    machine: Provisioning = field(default_factory=Provisioning, init=False)
    is_restored: bool = field(default=False, init=False)
    """Whether the bookings of this term are all that the requests were or may be promised."""
    _marked: dict[Key, None] = field(default_factory=dict, init=False)
    _uids: dict[RequestUid, Key] = field(default_factory=dict, init=False)
    _holds: dict[RequestUid, HoldId] = field(default_factory=dict, init=False)
    """The last hold of each request, by which it is known how it ended."""
    _unobserved: dict[RequestUid, str] = field(default_factory=dict, init=False)
    """The names of requests that were never read without an error."""
    _consumers: Grouped[Key, None] = field(default_factory=Grouped, init=False)
    _sent: dict[WriteTarget, tuple[Write, ProvisioningRequest, Key]] = field(
        default_factory=dict, init=False
    )
    """The last write of each object that has not ended, and the request that it is for."""
    _searches: deque[Book] = field(default_factory=deque, init=False)
    """The requests that wait for a search, in the order in which the machine asked."""
    _began_s: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._woken = asyncio.Event()
        self._series = EventSeries(self.reporter)
        self._refused: list[StatusRefused] = []
        self.metrics.follow(lambda: (each.value for each in self.requests.objects.values()))
        for each in self.form.followed:
            self.writer.follow(each)
        self.writer.listen(self.form.manager, self._settled)
        self.writer.listen(self._events_manager, lambda _: None)
        self.requests.subscribe(self._follow_requests)
        self.templates.subscribe(self._follow_templates)
        self.pods.subscribe(self._follow_pods)

    @property
    def _events_manager(self) -> str:
        return f"{self.form.manager}-events"

    def consumers(self, key: Key) -> list[ClusterPod]:
        """Return the pods that consume a request; O(these)."""
        found = (self.pods.objects.get(each) for each in self._consumers.values(key))
        return [pod for pod in found if pod is not None]

    def on_forest(self, _snapshot: Snapshot) -> None:
        """Do nothing: what a forest means for bookings shows in the capacity."""

    def warnings(self) -> tuple[WarningDocument, ...]:
        """Return that the API server has no such requests, or takes no writes of some of them."""
        waited = self._began_s is not None and self.clock() - self._began_s >= PATIENCE_S
        if not waited:
            return ()
        if not self.requests.synced:
            return (WarningDocument.of(*self.form.unserved),)
        awaited = sorted(self.machine.awaited)
        text = f"nothing is placed before these are written: {listed(awaited)}"
        return (WarningDocument.of(MasterCondition.REQUESTS_AWAITED, text),) if awaited else ()

    # The loop

    async def run(self) -> None:
        """Answer requests until cancelled. An error of one request sets that one aside."""
        self._began_s = self.clock()
        self.machine = Provisioning()
        self._holds.clear()
        self._searches.clear()
        self._unobserved.clear()
        while not self._is_known():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(SETTLING_POLL_S)
        try:
            await self._lead()
        finally:
            self.is_restored = False

    def _is_known(self) -> bool:
        return self.is_counted() and self.requests.synced and self.templates.synced

    async def _lead(self) -> None:
        self._mark_all()
        await self._turn(TermBegun())
        version, looked_s, has_grown = self.bookings.state.version, self.clock(), False
        while True:
            self.is_restored = self.is_restored or self.machine.has_begun
            await self._wait()
            began_s = self.clock()
            more: list[Event] = []
            since_s = began_s - looked_s
            has_changed = since_s >= LOOK_S and self.bookings.state.version != version
            if has_changed or since_s >= RETRY_S:
                version, looked_s, has_grown = self.bookings.state.version, began_s, True
                self._marked |= dict.fromkeys(self._undecided())
            if has_grown and not self.is_leaving():
                more.append(RoomGrew())
                has_grown = False
            await self._turn(*more)
            self._tell()
            await asyncio.sleep(max(GATHER_S, min(LOOK_S, self.clock() - began_s)))

    def _undecided(self) -> Iterator[Key]:
        """Yield the requests whose nodes may have changed: what is booked for them, or may be."""
        for record in self.machine.records():
            is_over = record.request.is_let_go and record.seen.held is None
            if not (is_over or record.request.phase.is_over):
                yield self._uids[record.request.uid]

    async def _wait(self) -> None:
        """Return when something is marked or due, or it is time to look at what is free."""
        due_s = self.machine.next_s
        wait_s = LOOK_S if due_s is None else min(LOOK_S, max(0.0, due_s - self.server_now()))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
        self._woken.clear()

    async def _turn(self, *more: Event) -> None:
        """Observe what is marked, and carry out what follows, but for searches beyond a turn's."""
        refused, self._refused = self._refused, []
        marked, self._marked = tuple(self._marked), {}
        events: list[Event] = [*refused, *self._vanished()]
        eligible: dict[NodeWants, Eligibility] = {}
        for number, key in enumerate(marked, 1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            if (known := self.requests.objects.get(key)) is not None:
                events.append(self._observed_alone(key, known.value, eligible))
        out, left = self.machine.advance(self.server_now(), *events, *more), SEARCHES_A_TURN
        while out or (self._searches and left):
            answers = await self._carry_out(out)
            batch = [self._searches.popleft() for _ in range(min(left, len(self._searches)))]
            left -= len(batch)
            answers += await self._book(batch)
            out = self.machine.advance(self.server_now(), *answers) if answers else ()
        if self._searches:
            self._woken.set()
        self._clear_errors()
        self.writer.put(*self.form.standing())

    def _clear_errors(self) -> None:
        """Hold nothing against requests that are gone or handled again; O(requests) if any was."""
        if self.errors.of(self.kind):
            records = (each for each in self.machine.records() if each.error is not None)
            names = {each.request.full_name for each in records}
            self.errors.retain(self.kind, names | set(self._unobserved.values()))

    def _vanished(self) -> Iterator[RequestVanished]:
        """Yield the requests that are gone, and bookings of requests that nobody knows."""
        there = {known.value.uid for known in self.requests.objects.values()}
        held = self.bookings.holds()
        for uid in self._unobserved.keys() - there:
            del self._unobserved[uid]
        for uid in {*self._uids, *held} - there:
            self._uids.pop(uid, None)
            self._holds.pop(uid, None)
            yield RequestVanished(uid, held[uid].id if uid in held else None)

    def _observed_alone(
        self, key: Key, request: ProvisioningRequest, eligible: dict[NodeWants, Eligibility]
    ) -> RequestObserved | HandlingFailed:
        """Return a request as it is now, or the error that reading it raised."""
        found = attempt(partial(self._observed, key, request, eligible))
        if not isinstance(found, ObjectError):
            self._unobserved.pop(request.uid, None)
            return found
        if self.machine.find(request.uid) is None:  # nothing is known that could be set aside
            self._unobserved[request.uid] = request.full_name
            self._tell_set_aside(TellSetAside(request, found))
        return HandlingFailed(request.uid, found)

    def _observed(
        self, key: Key, request: ProvisioningRequest, eligible: dict[NodeWants, Eligibility]
    ) -> RequestObserved:
        uid = request.uid
        self._uids[uid] = key
        held = self.bookings.held(uid)
        taken, given_up = False, ""
        if held is not None:
            self._holds[uid] = held.hold
            if held.hold == request.named_hold:
                request = replace(request, details=held.details)
        elif (before := self._holds.get(uid)) is not None:
            taken, given_up = self.bookings.how_it_ended(before)
        is_elsewhere = self.bookings.is_booked_elsewhere(request)
        return RequestObserved(
            request=request,
            asked=_ELSEWHERE if is_elsewhere else self.terms.read(request, eligible),
            held=held,
            taken=taken or is_elsewhere or (held is None and self._has_pods(key)),
            given_up=given_up,
            broken=self.bookings.broken(uid) if held is not None else "",
        )

    def _has_pods(self, key: Key) -> bool:
        """Return whether pods that consume a request have nodes, or places that are theirs."""
        return any(
            pod.node is not None
            or (isinstance(pod, GangPod) and pod.note is not None and pod.note.is_booked)
            for pod in self.consumers(key)
            if not pod.finished
        )

    # What is to be done

    async def _carry_out(self, instructions: Iterable[Instruction]) -> list[Event]:
        """Carry out the instructions, but for searches; return the answers to the others."""
        again: list[Rebook] = []
        failed: list[Event] = []
        for each in instructions:
            match each:
                case Book():
                    self._searches.append(each)
                case Rebook():
                    again.append(each)
                case EndBooking():
                    self.bookings.release(each.hold)
                case WriteStatus():
                    found = await attempt_async(self._write(each))
                    if isinstance(found, ObjectError):
                        failed.append(HandlingFailed(each.request.uid, found))
                case Tell():
                    self._note(each.request, Phase.ACCEPTED, each.text)
                case TellSetAside():
                    self._tell_set_aside(each)
        return [*failed, *await self._book(again)]

    async def _book(self, asked: Iterable[Book | Rebook]) -> list[Event]:
        """Book what is asked for, of requests that are still there; return the answers."""
        answers: list[Event] = []
        new: list[Booked] = []
        for each in asked:
            if self.machine.find(each.uid) is None:
                continue
            found = attempt(partial(self.bookings.find, each))
            if isinstance(found, ObjectError):
                answers.append(HandlingFailed(each.uid, found))
                continue
            self.metrics.count_booking(found)
            if isinstance(found, NoRoom):
                answers.append(found)
            else:
                new.append(Booked(each.uid, found))
            await asyncio.sleep(0)
        return [*answers, *await self._saved(new)]

    async def _saved(self, new: Iterable[Booked]) -> list[Event]:
        """Return bookings as booked once they are on disk; those that are not are ended again."""
        booked = tuple(new)
        if not booked:
            return []
        why = await self.bookings.state.saved.wait()
        if not why:
            self._holds |= {each.uid: each.held.hold for each in booked}
            return [*booked]
        for each in booked:
            self.bookings.release(each.held.hold)
        text = f"the booking cannot be written down: {why}"
        return [NoRoom(each.uid, text) for each in booked]

    async def _write(self, asked: WriteStatus) -> None:
        request = asked.request
        if asked.phase in {Phase.FAILED, Phase.ACCEPTED} and asked.text:
            asked = replace(asked, text=await self._with_change(asked))
        for write in self.form.writes(asked):
            self._sent[write.target] = write, request, self._uids[request.uid]
            self.writer.put(write)
        if asked.phase is not Phase.ACCEPTED:
            self.metrics.count_phase(asked.phase)
            self._note(request, asked.phase, asked.text)
            said = {"request": request.name, "namespace": request.namespace, "why": asked.text}
            _log.info(f"provisioning request {asked.phase}", **said)

    async def _with_change(self, asked: WriteStatus) -> str:
        """Return why there is no room, and the smallest change that would make some."""
        record = self.machine.find(asked.request.uid)
        terms = record.seen.asked if record is not None else None
        if not isinstance(terms, Terms) or record is None or record.refused is None:
            return asked.text
        planner = self.planner
        outcome = await planner.explain_outcome(planner.plan(terms.request), None)
        change = change_in_words(outcome.advice, outcome.result, asked.text)
        return f"{asked.text}. {change}"[:MESSAGE_CHARS] if change else asked.text

    def _tell_set_aside(self, found: TellSetAside) -> None:
        """Tell the user of a request, and who runs this master, that it is set aside."""
        request = found.request
        self.errors.note(self.kind, request.full_name, found.error)
        text = f"set aside for an error of topo-master: {found.error}; {self.kind.effect}"
        content = EventContent("SetAside", text, "Warning", "ProvisionCapacity")
        about = attempt(partial(self.form.about, request))
        if not isinstance(about, ObjectError):
            self._series.add(about, content, self.server_now())

    def _note(self, request: ProvisioningRequest, phase: Phase, text: str) -> None:
        """Note an Event about the request."""
        waits = phase is Phase.ACCEPTED
        is_bad = waits or phase in {Phase.FAILED, Phase.REVOKED}
        reason = "WaitsForGroups" if waits else phase.value
        content = EventContent(reason, text, "Warning" if is_bad else "Normal", "ProvisionCapacity")
        self._series.add(self.form.about(request), content, self.server_now())

    def _tell(self) -> None:
        """Write the Events that are due."""
        for told in self._series.due(self.server_now(), MOST_EVENTS):
            target = WriteTarget(EVENTS, told.name, told.namespace)
            self.writer.put(
                Apply(target=target, manager=self._events_manager, uid="", fields=told.fields)
            )

    def _settled(self, settled: Settled) -> None:
        """Have a refused write decided again: on a newer version soon, else after a while.

        The end of one that a newer write follows decides nothing: that one ends, too.
        """
        target, error = settled.write.target, settled.error
        write, request, key = self._sent.get(target, (None, None, None))
        if request is None or key is None or write != settled.write:
            return
        del self._sent[target]
        if error is None:
            return
        later_s = 0.0 if error.is_conflict or error.is_missing else REFUSED_S
        refused = StatusRefused(request.uid, request.version, self.server_now() + later_s)
        self._refused.append(refused)
        self._mark(key)

    # What changed

    def _mark(self, *keys: Key) -> None:
        if self._began_s is not None:  # a follower would collect them for weeks
            self._marked |= dict.fromkeys(keys)
            self._woken.set()

    def _mark_all(self) -> None:
        self._mark(*self.requests.objects)

    def _follow_requests(self, event: StoreEvent[KnownRequest]) -> None:
        if isinstance(event, Listed):
            self._mark_all()
        else:
            self._mark(event.key)

    def _follow_templates(self, event: StoreEvent[KnownTemplate]) -> None:
        """Mark the requests that name a template; O(requests)."""
        if isinstance(event, Listed):
            self._mark_all()
            return
        namespace, name = event.key
        for key, known in self.requests.objects.items():
            if key[0] == namespace and name in dict(known.value.pod_sets):
                self._mark(key)

    def _follow_pods(self, event: StoreEvent[ClusterPod]) -> None:
        for key, pod in updates(event, self._consumers.keys):
            self._follow_pod(key, pod)

    def _follow_pod(self, key: Key, pod: ClusterPod | None) -> None:
        """Keep which pods consume which request, and mark the request of one that changed."""
        consumes = (key[0], pod.consumes) if pod is not None and pod.consumes else None
        before = self._consumers.group_of(key)
        if before is not None and before != consumes:
            self._consumers.drop(key)
            self._mark(before)
        if consumes is not None:
            self._consumers.put(key, consumes, None)
            self._mark(consumes)
