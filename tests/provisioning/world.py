"""ProvisioningRequests in a small cluster: what an API server keeps, leaders that die, and a judge.

The judge knows objects, nodes and pods alone: no booking, and nothing of the machine. The bookings
and the engine are the real ones.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from topo.model.ids import NodeName
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.confirm import confirm_groups
from topo.placement.booking.events import (
    HoldAsked,
    HoldChange,
    HoldReleased,
    Pod,
    PodGone,
    PodPhase,
    PodSeen,
)
from topo.placement.booking.holds import (
    ClockReading,
    Hold,
    HoldId,
    HoldRequest,
    HoldsMemory,
    Limits,
)
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.request import Request
from topo.provisioning.course import Phase, ProvisioningRequest, RequestUid
from topo.provisioning.machine import Provisioning
from topo.provisioning.messages import (
    Book,
    Booked,
    EndBooking,
    Event,
    Held,
    Instruction,
    NoRoom,
    Rebook,
    RequestObserved,
    RequestVanished,
    RoomGrew,
    StatusRefused,
    TermBegun,
    WriteStatus,
)
from topo.provisioning.record import node_details, read_nodes
from topo.provisioning.terms import Terms

KEY = "provisioning/"


class KilledError(Exception):
    """The leader died."""


@dataclass
class Api:
    """The objects, judged by version; `at` is the server's clock."""

    requests: dict[RequestUid, ProvisioningRequest] = field(default_factory=dict)
    versions: Iterator[int] = field(default_factory=lambda: count(1))

    def create(self, name: str, now_s: float, **more: object) -> RequestUid:
        uid = RequestUid(f"uid-{name}")
        values: dict[str, object] = {"pod_sets": (("template", 1),), **more}
        self.requests[uid] = ProvisioningRequest(
            uid=uid,
            namespace="jobs",
            name=name,
            version=str(next(self.versions)),
            created_s=now_s,
            **values,  # type: ignore[arg-type]
        )
        return uid

    def touch(self, uid: RequestUid) -> None:
        """Somebody labels the object."""
        self.requests[uid] = replace(self.requests[uid], version=str(next(self.versions)))

    def write(self, asked: WriteStatus) -> bool:
        """Return whether a write is taken: it names the version that there is."""
        found = self.requests.get(asked.request.uid)
        if found is None or found.version != asked.request.version:
            return False
        self.requests[found.uid] = replace(
            found,
            version=str(next(self.versions)),
            conditions=asked.conditions,
            details=asked.details,
        )
        return True


@dataclass
class Leader:
    """One master that leads. `steps` is told before and after each step that outlives it."""

    world: "World"
    bookings: Bookings
    machine: Provisioning = field(default_factory=Provisioning)
    late: list[WriteStatus] = field(default_factory=list)
    """Writes that were sent when it died, and may still arrive."""
    told: list[tuple[float, tuple[Event, ...], tuple[Instruction, ...]]] = field(
        default_factory=list
    )
    _begun: bool = False
    _refused: list[StatusRefused] = field(default_factory=list)
    """Answers to writes, which come after the turn that sent them."""
    _unseen: Collection[RequestUid] = ()

    def turn(self, unseen: Collection[RequestUid] = ()) -> None:
        """Observe all but the unseen requests, of which nothing came yet, and do what is due."""
        world = self.world
        self.bookings.advance(world.now_s)
        self._unseen = unseen
        changed = [uid for uid in world.api.requests if self._may_differ(uid)]
        refused, self._refused = self._refused, []
        seen = map(self._observed, changed)
        events: list[Event] = [*refused, *self._vanished(), *seen, RoomGrew()]
        if not self._begun:
            events.append(TermBegun())
            self._begun = True
        for _ in range(100):
            out = self.machine.advance(world.now_s, *events)
            self.told.append((world.now_s, tuple(events), out))
            self.machine.validate()
            if not out:
                return
            events = [answer for each in out for answer in self._carry_out(each)]
        raise AssertionError("it never ends")

    def hold_of(self, uid: RequestUid) -> Hold | None:
        return next((each for each in self.bookings if each.wish.key == KEY + uid), None)

    def _may_differ(self, uid: RequestUid) -> bool:
        """Whether a request that is seen is new, has a booking, changed, or may yet change."""
        if uid in self._unseen:
            return False
        known, found = self.machine.find(uid), self.world.api.requests[uid]
        is_same = known is not None and known.request.version == found.version
        return not (is_same and found.phase.is_over and self.hold_of(uid) is None)

    def consume(self, uid: RequestUid) -> bool:
        """The pods of a job take what is booked, in one step; return whether it was."""
        hold = self.hold_of(uid)
        if hold is None or self.world.api.requests[uid].phase is not Phase.PROVISIONED:
            return False
        pods = self.world.pods_on(uid, hold.gpus)
        self.world.taken.setdefault(uid, []).extend(pods)
        seen = [PodSeen(pod, PodPhase.BOUND) for pod in pods]
        self.bookings.advance(self.world.now_s, HoldReleased(hold.id), *seen)
        return True

    def _vanished(self) -> Iterator[RequestVanished]:
        known = {each.request.uid for each in self.machine.records()}
        held = {RequestUid((each.wish.key or "").removeprefix(KEY)) for each in self.bookings}
        gone = (known | held) - self.world.api.requests.keys()
        for uid in sorted(gone.difference(self._unseen)):
            hold = self.hold_of(uid)
            yield RequestVanished(uid, hold.id if hold is not None else None)

    def _observed(self, uid: RequestUid) -> RequestObserved:
        world, hold = self.world, self.hold_of(uid)
        return RequestObserved(
            request=world.api.requests[uid],
            asked=Terms(world.wanted[uid]),
            held=self._held(hold) if hold is not None else None,
            taken=uid in world.taken,
            broken=self._broken(hold) if hold is not None else "",
        )

    def _broken(self, hold: Hold) -> str:
        free = self.bookings_capacity.with_changes(released=[hold.id])
        found = confirm_groups(free, hold.wish.request, [g.pods for g in hold.groups], None)
        return found if isinstance(found, str) else ""

    @property
    def bookings_capacity(self) -> Capacity:
        return self.world.capacities[id(self)]

    def _held(self, hold: Hold) -> Held:
        details = node_details([group.pods for group in hold.groups])
        assert details is not None
        assert hold.deadline_s is not None
        return Held(hold.id, tuple(details.items()), hold.deadline_s)

    def _carry_out(self, each: Instruction) -> Iterator[Event]:
        world = self.world
        match each:
            case Book():
                found = place(self.bookings_capacity, each.terms.request)
                if isinstance(found, NoFit):
                    yield NoRoom(each.uid, found.text)
                else:
                    yield self._hold(each.uid, found, each.hold_s)
            case Rebook():
                request = each.terms.request
                plan = confirm_groups(self.bookings_capacity, request, each.groups.groups, None)
                if isinstance(plan, str):
                    yield NoRoom(each.uid, plan)
                else:
                    yield self._hold(each.uid, plan, each.hold_s)
            case EndBooking():
                self.bookings.advance(world.now_s, HoldReleased(each.hold))
                world.save(self)
            case WriteStatus():
                self.late = [each]
                world.step()
                if world.api.write(each):
                    self.late = []
                    world.judge()
                    world.step()
                    if each.request.uid not in self._unseen:
                        yield self._observed(each.request.uid)
                else:
                    self.late = []
                    uid, version = each.request.uid, each.request.version
                    self._refused.append(StatusRefused(uid, version, world.now_s))

    def _hold(self, uid: RequestUid, plan: Plan, hold_s: float) -> Event:
        world = self.world
        hold_id = HoldId(f"hold-{next(world.names)}")
        wish = HoldRequest(plan.request, hold_s, KEY + uid)
        *_, change = self.bookings.advance(world.now_s, HoldAsked.of(wish, plan, hold_id, 1))
        if not isinstance(change, HoldChange):
            return NoRoom(uid, "no longer")
        world.step()
        world.save(self)
        world.step()
        return Booked(uid, self._held(change.hold))


@dataclass
class World:
    """The cluster: nodes, requests, pods, and the state that a leader left."""

    capacity: Callable[[], Capacity]
    api: Api = field(default_factory=Api)
    now_s: float = 1000.0
    wanted: dict[RequestUid, Request] = field(default_factory=dict)
    taken: dict[RequestUid, list[Pod]] = field(default_factory=dict)
    saved: HoldsMemory = field(default_factory=lambda: HoldsMemory(1, ()))
    lost: set[NodeName] = field(default_factory=set)
    """Nodes that are not ready."""
    judged: bool = True
    """Whether promises hold at each moment: not between a lost node and the next turn."""
    names: Iterator[int] = field(default_factory=lambda: count(1))
    capacities: dict[int, Capacity] = field(default_factory=dict)
    dies_after: int = -1
    ended: dict[RequestUid, Phase] = field(default_factory=dict)

    def ask(self, name: str, request: Request, **more: object) -> RequestUid:
        """Somebody creates a request."""
        uid = self.api.create(name, self.now_s, **more)
        self.wanted[uid] = request
        return uid

    def lead(self) -> Leader:
        """A master takes over, with the state that was saved and the pods that run."""
        capacity = self.capacity()
        for node in self.lost:
            self._set_ready(capacity, node, ready=False)
        bookings = Bookings(capacity, Limits(hold_s=1e9))
        leader = Leader(self, bookings)
        self.capacities[id(leader)] = capacity
        bookings.restore(self.saved, ClockReading("boot", self.now_s, self.now_s))
        pods = [pod for pods in self.taken.values() for pod in pods]
        bookings.advance(self.now_s, *(PodSeen(pod, PodPhase.BOUND) for pod in pods))
        return leader

    def save(self, leader: Leader) -> None:
        """The state is on disk."""
        reading = ClockReading("boot", self.now_s, self.now_s)
        self.saved = leader.bookings.persistent_state(reading)

    def step(self) -> None:
        """Something happens that outlives the leader; it may die here."""
        if self.dies_after == 0:
            self.dies_after = -1
            raise KilledError
        if self.dies_after > 0:
            self.dies_after -= 1

    def pods_on(self, uid: RequestUid, gpus: dict[NodeName, int]) -> list[Pod]:
        return [
            Pod(uid=f"{uid}/{node}", namespace="jobs", name=f"{uid}-{node}", node=node, gpus=number)
            for node, number in gpus.items()
        ]

    def end(self, uid: RequestUid, leader: Leader) -> None:
        """The job of a request ends."""
        pods = self.taken.get(uid, [])
        leader.bookings.advance(self.now_s, *(PodGone(pod.uid) for pod in pods))
        self.taken[uid] = []

    def set_ready(self, node: NodeName, leader: Leader, *, ready: bool) -> None:
        """A node goes or comes back."""
        (self.lost.discard if ready else self.lost.add)(node)
        self._set_ready(leader.bookings_capacity, node, ready=ready)

    @staticmethod
    def _set_ready(capacity: Capacity, node: NodeName, *, ready: bool) -> None:
        host = capacity.host(node)
        assert host is not None
        capacity.upsert(replace(host, ready=ready))

    # The judge

    def promised(self) -> Iterator[tuple[ProvisioningRequest, Counter[NodeName]]]:
        """Yield the requests that are provisioned, not over and not taken, and their GPUs."""
        for uid, found in self.api.requests.items():
            deadline_s = found.deadline_s
            if found.phase is not Phase.PROVISIONED or uid in self.taken:
                continue
            if deadline_s is None or deadline_s <= self.now_s:
                continue
            groups = read_nodes(dict(found.details))
            assert groups is not None, "what is provisioned says where"
            gpus: Counter[NodeName] = Counter()
            for pods in groups.groups:
                for node, number in pods:
                    gpus[node] += number * self.wanted[uid].gpus_per_pod
            yield found, gpus

    def judge(self) -> None:
        """Fail where a GPU has two owners, or a promise has no node, or a course went back."""
        total: Counter[NodeName] = Counter()
        for found, gpus in self.promised():
            asked = self.wanted[found.uid]
            assert sum(gpus.values()) == asked.pods * asked.gpus_per_pod
            total += gpus
            if self.judged:
                assert not gpus.keys() & self.lost, f"{found.name} is promised a lost node"
        for pods in self.taken.values():
            for pod in pods:
                total[pod.node] += pod.gpus
        assert all(gpus <= 8 for gpus in total.values()), f"a GPU has two owners: {total}"
        for uid, found in self.api.requests.items():
            before = self.ended.get(uid)
            assert before in {None, found.phase}, f"{uid} went from {before} to {found.phase}"
            if found.phase.is_over:
                self.ended[uid] = found.phase
            expired = found.condition(Phase.EXPIRED)
            if expired is not None:
                assert found.deadline_s is not None
                assert expired.since_s >= found.deadline_s

    def judge_settled(self, leader: Leader) -> None:
        """Fail where something is left undone after a turn of a leader."""
        self.judge()
        for uid, found in self.api.requests.items():
            hold = leader.hold_of(uid)
            deadline_s = found.deadline_s
            if found.phase is Phase.PROVISIONED:
                assert deadline_s is not None
                assert self.now_s < deadline_s, f"{found.name} is late"
                assert hold is not None or uid in self.taken
            assert found.phase is not Phase.NEW
            if found.phase.is_over:
                assert hold is None, f"{found.name} is {found.phase} and has a booking"
        held = {(each.wish.key or "").removeprefix(KEY) for each in leader.bookings}
        assert held <= self.api.requests.keys(), "a booking has no request"
