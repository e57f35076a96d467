"""What requests have booked, as the gangs and pods that consume them see it."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from master.controllers.nomination.sources import Reservation
from master.controllers.provisioning.bookings import RequestBookings
from master.controllers.provisioning.terms import RequestReader
from master.kube.objects import Key
from master.kube.reflector import StoreEvent
from master.kube.schedulers.provisioning import KnownRequest
from master.kube.store import Grouped, Store, updates
from topo.gangs.annotation_keys import is_workload, of_workload
from topo.model.ids import NodeName
from topo.placement.booking.holds import Hold, HoldId
from topo.provisioning.course import Phase, RequestUid
from topo.provisioning.terms import Terms


@dataclass(frozen=True, slots=True)
class RequestReservations:
    """Answers from the objects and bookings of this moment. It changes neither.

    `is_awaited`: pods of a request may be there before it is decided, and wait for it.
    """

    store: Store[KnownRequest]
    bookings: RequestBookings
    terms: RequestReader
    server_now: Callable[[], float]
    is_awaited: bool = True
    _by_uid: Grouped[RequestUid, None] = field(default_factory=Grouped, init=False)
    """The names of requests: the name that a hold has of its own may be cut off."""

    def __post_init__(self) -> None:
        self.store.subscribe(self._follow)

    @property
    def stores(self) -> tuple[Store[Any], ...]:
        """The requests."""
        return (self.store,)

    def find(self, key: Key) -> Reservation | None:
        """Return what a request has for its pods; they wait until it is decided."""
        known = self.store.objects.get(key)
        if not self.is_awaited:
            booked = self.hold_of(key)
            return Reservation(hold=booked) if booked is not None else None
        if known is None:
            return Reservation(awaits=f"its ProvisioningRequest {key[1]} is not there yet")
        found = known.value
        asked = self.terms.read(found)
        request = asked.request if isinstance(asked, Terms) else None
        if found.phase in {Phase.NEW, Phase.ACCEPTED}:
            return Reservation(
                request, awaits=f"its ProvisioningRequest {key[1]} is not decided yet"
            )
        hold = self.bookings.holds().get(found.uid) if self._is_promised(known) else None
        return Reservation(request, hold.id if hold is not None else None)

    def hold_of(self, key: Key) -> HoldId | None:
        """Return the booking of a request; O(1).

        A booking lasts longer than its promise, and so do the shares that pods have of it.
        """
        known = self.store.objects.get(key)
        if known is None or known.value.is_leaving:
            return None
        # Pods of the other kind are there, whatever of it was seen by now.
        if self.is_awaited and known.value.phase in {Phase.NEW, Phase.ACCEPTED}:
            return None
        hold = self.bookings.holds().get(known.value.uid)
        return hold.id if hold is not None else None

    def request_of(self, hold: Hold) -> Key | None:
        """Return the request that a hold books for, by the name that pods have for it; None for a
        hold of others, or of a request that is gone. O(1).
        """
        uid = self.bookings.request_of(hold)
        return next(iter(self._by_uid.values(uid)), None) if uid is not None else None

    def nodes(self, holds: Iterable[HoldId]) -> Collection[NodeName]:
        """Return the nodes that those holds among these book which are of requests."""
        of_requests = {hold.id: hold for hold in self.bookings.holds().values()}
        found = [of_requests[each] for each in holds if each in of_requests]
        return {node for hold in found for node in hold.gpus}

    def note_taken(self, holds: Iterable[HoldId]) -> None:
        """Note that pods take over the holds among these that are of requests."""
        self.bookings.note_taken(holds)

    def _follow(self, event: StoreEvent[KnownRequest]) -> None:
        for key, known in updates(event, tuple(self._by_uid.keys)):
            if known is not None:
                self._by_uid.put(key, known.value.uid, None)
            else:
                self._by_uid.drop(key)

    def _is_promised(self, known: KnownRequest) -> bool:
        found = known.value
        if found.phase is not Phase.PROVISIONED or found.is_leaving:
            return False
        return found.deadline_s is not None and self.server_now() < found.deadline_s


@dataclass(frozen=True, slots=True)
class AllReservations:
    """ProvisioningRequests and workloads of Kueue, of which either may be left alone."""

    requests: RequestReservations | None
    workloads: RequestReservations | None

    @property
    def stores(self) -> tuple[Store[Any], ...]:
        """The requests of both kinds."""
        return tuple(each.store for each in self._each())

    def find(self, key: Key) -> Reservation | None:
        """Return what a request has for its pods; None for one that is left alone."""
        found = self._of(key)
        return found.find(key) if found is not None else None

    def hold_of(self, key: Key) -> HoldId | None:
        """Return the booking of a request; O(1)."""
        found = self._of(key)
        return found.hold_of(key) if found is not None else None

    def request_of(self, hold: Hold) -> Key | None:
        """Return the request that a hold books for; None for a hold of others."""
        found = (each.request_of(hold) for each in self._each())
        return next((key for key in found if key is not None), None)

    def nodes(self, holds: Iterable[HoldId]) -> Collection[NodeName]:
        """Return the nodes that those holds among these book which are of requests."""
        found = tuple(holds)
        return {node for each in self._each() for node in each.nodes(found)}

    def note_taken(self, holds: Iterable[HoldId]) -> None:
        """Note that pods take over the holds among these that are of requests."""
        found = tuple(holds)
        for each in self._each():
            each.note_taken(found)

    def _each(self) -> Iterator[RequestReservations]:
        return (each for each in (self.requests, self.workloads) if each is not None)

    def _of(self, key: Key) -> RequestReservations | None:
        return self.workloads if is_workload(key[1]) else self.requests


@dataclass(frozen=True, slots=True)
class JobBookings:
    """The bookings of a job of Kueue by its Workload, and by a ProvisioningRequest of that.

    Either of them is the booking of the job. A request takes over what is booked for its Workload,
    since Kueue has its pods consume the request, and a Workload books nothing beside it.
    """

    requests: RequestReservations
    workloads: RequestReservations

    def join(self) -> None:
        """Have the bookings of both kinds know each other."""
        self.requests.bookings.takes_over = self.of_workload
        self.workloads.bookings.gives_way = self.of_requests

    def of_workload(self, namespace: str, name: str) -> tuple[HoldId, ...]:
        """Return what is booked for a Workload: before its quota, or by an AdmissionCheck. O(1)."""
        hold = self.workloads.hold_of((namespace, of_workload(name)))
        return (hold,) if hold is not None else ()

    def of_requests(self, namespace: str, name: str) -> tuple[HoldId, ...]:
        """Return what is booked for the requests of a Workload; O(bookings of requests)."""
        known = self.requests.store.objects
        found = (
            (hold, known.get(self.requests.request_of(hold) or ("", "")))
            for hold in self.requests.bookings.holds().values()
        )
        return tuple(
            hold.id
            for hold, each in found
            if each is not None and (each.value.namespace, each.value.workload) == (namespace, name)
        )
