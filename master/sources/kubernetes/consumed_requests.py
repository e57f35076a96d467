"""The bookings of requests for capacity, of which the pods that consume these take shares."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from master.kube.gang_pod import ClusterPod
from master.kube.objects import Key
from master.kube.reflector import Listed, StoreEvent
from master.kube.store import Grouped, Store, updates
from topo.placement.booking.holds import Hold, HoldId


class BookedRequests(Protocol):
    """What requests have booked."""

    @property
    def stores(self) -> tuple[Store[Any], ...]:
        """The requests, by the names that pods have for them."""
        ...

    def hold_of(self, key: Key) -> HoldId | None:
        """Return the booking of a request; O(1)."""
        ...

    def request_of(self, hold: Hold) -> Key | None:
        """Return the request that a hold books for; None for a hold of another client."""
        ...


class ConsumedRequests:
    """Tells which booking a pod takes a share of by the request that it consumes.

    That follows from the request and its booking as they are now. Either may be known after the
    pod, as in a master that hears of holds from its leader: `recount` is called with the pods of a
    request that changed, and `takers` returns those of a booking that came.
    """

    def __init__(
        self,
        pods: Store[ClusterPod],
        requests: BookedRequests,
        recount: Callable[[Iterable[Key]], None],
    ) -> None:
        self._requests, self._recount = requests, recount
        self._consumers: Grouped[Key, None] = Grouped()
        pods.subscribe(self._follow_pods)
        for store in requests.stores:
            store.subscribe(self._follow_requests)

    def hold_of(self, pod: ClusterPod) -> HoldId | None:
        """Return the booking of the request that a pod consumes; None for none. O(1)."""
        request = _request_of(pod)
        return self._requests.hold_of(request) if request is not None else None

    def takers(self, hold: Hold) -> Iterable[Key]:
        """Return the pods that consume the request of a hold."""
        request = self._requests.request_of(hold)
        return tuple(self._consumers.values(request)) if request is not None else ()

    def _follow_pods(self, event: StoreEvent[ClusterPod]) -> None:
        for key, pod in updates(event, tuple(self._consumers.keys)):
            request = _request_of(pod) if pod is not None else None
            if request is not None:
                self._consumers.put(key, request, None)
            else:
                self._consumers.drop(key)

    def _follow_requests(self, event: StoreEvent[Any]) -> None:
        self._recount(tuple(self._of(event)))

    def _of(self, event: StoreEvent[Any]) -> Iterator[Key]:
        """Yield the pods that consume what changed; of a list all that consume anything."""
        if isinstance(event, Listed):
            yield from self._consumers.keys
        else:
            yield from self._consumers.values(event.key)


def _request_of(pod: ClusterPod) -> Key | None:
    return (pod.metadata.namespace, pod.consumes) if pod.consumes else None
