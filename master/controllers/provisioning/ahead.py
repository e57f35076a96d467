"""For whom the bookings of requests for capacity are, as the budget of namespaces sees them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from master.booking.ahead import Keeper, Waiting
from master.controllers.provisioning.bookings import RequestBookings
from master.kube.gang_pod import ClusterPod
from master.kube.objects import Key
from master.kube.schedulers.provisioning import KnownRequest
from master.kube.store import Store
from topo.gangs.annotation_keys import of_workload
from topo.placement.booking.holds import Hold


@dataclass(frozen=True, slots=True)
class RequestsAhead:
    """What requests of one kind have booked for pods that do not exist yet.

    `consumers` returns the pods of a request; pods that exist are counted by their quota.
    """

    kind: Literal["request", "workload"]
    requests: Store[KnownRequest]
    bookings: RequestBookings
    consumers: Callable[[Key], Iterable[ClusterPod]]

    def keeper(self, hold: Hold) -> Keeper | None:
        """Return the request of a hold; O(1)."""
        uid = self.bookings.request_of(hold)
        if uid is None:
            return None
        namespace, name = self.bookings.full_name_of(hold)
        known = self.requests.objects.get(self._key(namespace, name))
        workload = known.value.workload if known is not None and known.value.uid == uid else ""
        return Keeper(id=uid, kind=self.kind, namespace=namespace, name=name, workload=workload)

    def waiting(self, keeper: Keeper) -> Waiting:
        """Return the pods of the request that exist and book nothing yet; O(its pods)."""
        pods = [
            pod
            for pod in self.consumers(self._key(keeper.namespace, keeper.name))
            if pod.gpus and not (pod.finished or pod.terminating)
        ]
        has_pod = self.bookings.state.bookings.has_pod
        return Waiting([pod.gpus for pod in pods if not has_pod(pod.metadata.uid)])

    def _key(self, namespace: str, name: str) -> Key:
        return namespace, of_workload(name) if self.kind == "workload" else name
