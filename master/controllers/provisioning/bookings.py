"""The bookings of ProvisioningRequests: holds whose key is the uid of their request.

Runs on the event loop without awaiting, so nothing else is booked between a search and its hold.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from master.booking.ahead import AheadBudget
from master.booking.state import BookingState
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.machine.events import Refused
from topo.gangs.machine.gang import GangId, Member, PodUid
from topo.gangs.machine.instructions import Place
from topo.model.ids import Kind, NodeName
from topo.model.limits import MAX_KEY_CHARS, REQUEST_KEYS
from topo.model.words import counted
from topo.placement.booking.ahead import AheadRequest
from topo.placement.booking.confirm import confirm_groups
from topo.placement.booking.events import HoldAsked, HoldChange, HoldReleased
from topo.placement.booking.holds import Ended, Hold, HoldId, HoldRefused, HoldRequest, shortage
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.other_fabrics import in_words, shared_group
from topo.placement.capacity.pod_room import PodRoom
from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.provisioning.course import ProvisioningRequest, RequestUid
from topo.provisioning.messages import Book, Held, NoRoom, Rebook
from topo.provisioning.record import (
    GPU_TYPE,
    GROUPS,
    INSIDE,
    MODE,
    node_details,
    shown_groups,
)
from topo.provisioning.terms import Terms

OfWorkload = Callable[[str, str], Sequence[HoldId]]
"""Returns holds for a Workload of Kueue, by its namespace and name."""


@dataclass
class RequestBookings:
    """Books whole groups for requests on the capacity of one master.

    `ahead` says what namespaces may have booked for pods that do not exist. `labels` returns the
    labels of a node, `label_keys` are those of groups: what pods may select. `server_now` is Unix
    time by the clock of the API servers. Keys of these holds begin with `prefix`; the uid and the
    name of the request follow.
    """

    state: BookingState
    _: KW_ONLY
    ahead: AheadBudget
    prefix: str = REQUEST_KEYS
    labels: Callable[[NodeName], Mapping[str, str]]
    label_keys: Mapping[Kind, str]
    server_now: Callable[[], float]
    takes_over: OfWorkload = lambda *_: ()
    """Returns the bookings of a job by another way of which one of these takes the place."""
    gives_way: OfWorkload = lambda *_: ()
    """Returns the bookings of a job by another way that took the place of one of these."""
    _holds: dict[RequestUid, Hold] = field(default_factory=dict)
    _by_namespace: Counter[str] = field(default_factory=Counter)
    _version: object = None
    _taken: dict[HoldId, None] = field(default_factory=dict)
    """Holds that pods took over, the latest last."""
    _refused: dict[Terms, NoRoom] = field(default_factory=dict)
    """The refusals of one moment, by request, so that equal requests are searched for once."""
    _refused_at: object = None

    # What there is

    def holds(self) -> Mapping[RequestUid, Hold]:
        """Return the hold of each request that has one; O(holds) after a change, else O(1)."""
        if self._version != self.state.bookings.version:
            found = ((self.request_of(hold), hold) for hold in self.state.bookings)
            self._holds = {uid: hold for uid, hold in found if uid is not None}
            self._by_namespace = Counter(
                self.full_name_of(hold)[0] for hold in self._holds.values()
            )
            self._version = self.state.bookings.version
        return self._holds

    def held(self, uid: RequestUid) -> Held | None:
        """Return the booking of a request; None where there is none or its record is too long."""
        hold = self.holds().get(uid)
        return self._held(hold) if hold is not None else None

    def note_taken(self, holds: Iterable[HoldId]) -> None:
        """Note that pods take over holds, which are ended for that."""
        self._taken |= dict.fromkeys(holds)
        while len(self._taken) > _REMEMBERED:
            del self._taken[next(iter(self._taken))]

    def how_it_ended(self, hold: HoldId) -> tuple[bool, str]:
        """Return whether pods have what a hold booked, and else why it ended; empty if unknown."""
        if hold in self._taken:
            return True, ""
        ended = self.state.find_hold(hold)
        if not isinstance(ended, Ended):
            return False, ""
        if ended.how == "bound":
            return True, ""
        return False, f"its booking {hold} was {ended.how} by somebody else"

    def broken(self, uid: RequestUid) -> str:
        """Return why the groups that are booked for a request are not to be had any more.

        Of a booking that pods have a part of, only nodes that are closed count: its groups are
        theirs by now.
        """
        hold = self.holds().get(uid)
        if hold is None:
            return ""
        capacity, awaited = self.state.capacity, self.state.bookings.awaited(hold.id)
        if dict(awaited) != hold.gpus:
            found = (capacity.host(node) for node in awaited)
            closed = [host.name for host in found if host is not None and not host.is_open]
            return shortage(capacity, closed[0], 0) if closed else ""
        free = capacity.with_changes(released=[hold.id])
        found_now = confirm_groups(free, hold.wish.request, _pods_of(hold), None)
        return found_now if isinstance(found_now, str) else ""

    def is_booked_elsewhere(self, request: ProvisioningRequest) -> bool:
        """Return whether the job of a request has its booking by another way."""
        workload = request.workload
        return bool(workload and self.gives_way(request.namespace, workload))

    # What changes them

    def find(self, asked: Book | Rebook) -> Held | NoRoom:
        """Book groups for a request, new ones or those that it says; or return why not."""
        return self.book(asked) if isinstance(asked, Book) else self.rebook(asked)

    def book(self, asked: Book) -> Held | NoRoom:
        """Book the best whole groups; or return why there are none."""
        request = asked.terms.request
        if asked.is_free and (why := self._beyond_share(asked.name)):
            return NoRoom(asked.uid, why)
        # What nodes have beside GPUs has no version, so that a refusal counts for a second.
        if self._refused_at != (at := (self.state.version, int(self.state.clock()))):
            self._refused, self._refused_at = {}, at
        own = self._own_holds(asked)
        if not own and (known := self._refused.get(asked.terms)) is not None:
            return replace(known, uid=asked.uid)
        found = self._place(asked, request, own)
        if not isinstance(found, Placed):
            refused = NoRoom(asked.uid, found.text, found.never)
            if not own:
                self._refused[asked.terms] = refused
            return refused
        excess = self._excess(asked, own)
        if why := excess(found.gpu_type):
            others = self.state.capacity.types_for(request.eligible)
            tried = (self._place(asked, request.on_type(e), own) for e in others if not excess(e))
            other = next((each for each in tried if isinstance(each, Placed)), None)
            if other is None:
                return NoRoom(asked.uid, why)
            found = other
        return self._hold(
            asked.uid,
            HoldAsked(
                id=_new_hold(),
                wish=HoldRequest(found.request, asked.hold_s, self._key(asked)),
                generation=self.state.generation,
                mode=found.mode,
                gpu_type=found.gpu_type,
                groups=found.groups,
            ),
            own,
        )

    def _own_holds(self, asked: Book | Rebook) -> tuple[HoldId, ...]:
        """Return the bookings of the same job that the one asked for takes the place of.

        Not one of which pods have a part.
        """
        if not asked.workload:
            return ()
        bookings, holds = self.state.bookings, self.takes_over(asked.namespace, asked.workload)
        return tuple(h for h in holds if bookings.awaited(h) == bookings.planned(h))

    def _place(self, asked: Book, request: Request, own: Sequence[HoldId]) -> Placed | Refused:
        members = tuple(_member(asked.uid, rank) for rank in range(request.pods))
        takes, gpus = asked.terms.takes, request.gpus_per_pod
        room = PodRoom(self.state.room, takes, gpus)
        place = Place(
            id=GangId(asked.uid), ask=0, request=request, wanted=members, takes=takes, reserve=False
        )
        return answer_place(self._without(own), place, (), room=room)

    def _without(self, own: Sequence[HoldId]) -> CapacityView:
        capacity = self.state.capacity
        return capacity.with_changes(released=own) if own else capacity

    def _excess(self, asked: Book, own: Sequence[HoldId]) -> Callable[[str], str]:
        """Return what says why the namespace may not have these GPUs booked, of a type."""
        request = asked.terms.request
        ahead = AheadRequest(
            id=f"{self.prefix}{asked.uid}",
            namespace=asked.namespace,
            gpus=request.pods * request.gpus_per_pod,
            gpu_type="",
            pods=request.pods,
            resource=asked.terms.resource,
            workload=asked.workload,
            own=own,
        )
        return lambda gpu_type: self.ahead.excess(replace(ahead, gpu_type=gpu_type))

    def _beyond_share(self, name: str) -> str:
        """Return why no more is booked for a namespace without quota; empty where it may be."""
        namespace, most = name.partition("/")[0], max(1, self.state.most_holds // SHARES)
        self.holds()
        if self._by_namespace[namespace] < most:
            return ""
        what = f"namespace {namespace} has groups booked for {counted(most, 'job')}"
        return f"{what} without pods, the most of one namespace (a part of --max-holds)"

    def rebook(self, asked: Rebook) -> Held | NoRoom:
        """Book the recorded nodes; or return why they are not free."""
        request, own = asked.terms.request, self._own_holds(asked)
        plan = confirm_groups(self._without(own), request, asked.groups.groups, None)
        if isinstance(plan, str):
            return NoRoom(asked.uid, plan)
        wish = HoldRequest(request, asked.hold_s, self._key(asked))
        booking = HoldAsked.of(wish, plan, _new_hold(), self.state.generation)
        return self._hold(asked.uid, booking, own)

    def release(self, hold: HoldId) -> None:
        """End a booking; one that has ended is no error."""
        self.state.advance(HoldReleased(hold))

    def _hold(
        self, uid: RequestUid, booking: HoldAsked, own: Sequence[HoldId] = ()
    ) -> Held | NoRoom:
        """Book in one step in which the job's own bookings end, so that nobody gets their nodes."""
        *_, change = self.state.advance(*map(HoldReleased, own), booking)
        if isinstance(change, HoldRefused):
            return NoRoom(uid, f"{change.refusal.what}; {change.refusal.fix}")
        assert isinstance(change, HoldChange), "it was reserved"  # noqa: S101 - for the checker
        held = self._held(change.hold)
        if held is None:
            self.release(change.hold.id)
            return NoRoom(uid, "the names of its nodes are too long for the request", never=True)
        return held

    def full_name_of(self, hold: Hold) -> tuple[str, str]:
        """Return the namespace and the name of the request of a hold; what is too long is cut off.

        Both are empty where the uid is: no API server makes such a long one.
        """
        _, _, full_name = (hold.wish.key or "").removeprefix(self.prefix).partition("/")
        namespace, _, name = full_name.partition("/")
        return namespace, name

    def request_of(self, hold: Hold) -> RequestUid | None:
        """Return the request that a hold was made for; None for a hold of another client."""
        key = hold.wish.key or ""
        if not key.startswith(self.prefix):
            return None
        return RequestUid(key.removeprefix(self.prefix).partition("/")[0])

    def _key(self, asked: Book | Rebook) -> str:
        """Return the key of a hold: the uid, by which it is found, and the name, for people."""
        return f"{self.prefix}{asked.uid}/{asked.name}"[:MAX_KEY_CHARS]

    def _held(self, hold: Hold) -> Held | None:
        groups = _pods_of(hold)
        nodes = node_details(groups)
        if nodes is None:
            return None
        details = {
            **nodes,
            GROUPS: shown_groups(
                [path for group in hold.groups for path in self._paths(group.pods)]
            ),
            MODE: hold.mode.value,
            **({GPU_TYPE: hold.gpu_type} if hold.gpu_type else {}),
            **self._common_labels(hold),
            **self._inside(hold),
        }
        deadline_s = hold.deadline_s if hold.deadline_s is not None else float("inf")
        until_s = self.server_now() + deadline_s - self.state.clock()
        return Held(hold.id, tuple(sorted(details.items())), until_s)

    def _paths(self, pods: Pods) -> list[tuple[str, ...]]:
        """Return the innermost groups of these nodes, each once."""
        hosts = [self.state.capacity.host(node) for node, _ in pods]
        paths = (tuple(map(str, host.path)) for host in hosts if host is not None and host.path)
        return list(dict.fromkeys(paths))

    def _inside(self, hold: Hold) -> dict[str, str]:
        """Return the group of the kind that its job must be within, in words."""
        capacity = self.state.capacity
        hosts = filter(None, map(capacity.host, hold.gpus))
        shared = shared_group(hosts, hold.wish.request.within, capacity.kinds())
        return {} if shared is None else {INSIDE: in_words(shared)}

    def _common_labels(self, hold: Hold) -> dict[str, str]:
        """Return the name of the group of each kind that all of the nodes are in, as labelled."""
        nodes = [self.labels(node) for node in hold.gpus]
        found = {}
        for kind, key in self.label_keys.items():
            values = {labels.get(key, "") for labels in nodes}
            if len(values) == 1 and (value := values.pop()):
                found[str(kind)] = value
        return found


_REMEMBERED = 1000
SHARES = 10
"""A namespace may have this part of all holds for jobs that have no quota yet: whoever may create
jobs in one queue must not take the holds of all others, nor those of gangs."""


def _new_hold() -> HoldId:
    return HoldId(f"hold-{secrets.token_hex(6)}")


def _pods_of(hold: Hold) -> list[Pods]:
    return [group.pods for group in hold.groups]


def _member(uid: RequestUid, rank: int) -> Member:
    return Member(uid=PodUid(f"{uid}/{rank}"), name=str(rank), rank=rank, version="")
