"""The cluster objects that the nomination controller reads."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from master.controllers.nomination.volumes import Volumes
from master.kube.dra.counts import DeviceCounts
from master.kube.gang_pod import ClusterPod, EndedPod
from master.kube.objects import Key, NodeObject, QuotaObject
from master.kube.schedulers.composite_groups import CompositeGroupObject
from master.kube.schedulers.jobs import JobObject
from master.kube.schedulers.scheduling_groups import SchedulingGroupObject
from master.kube.schedulers.volcano import PodGroupObject, QueueObject
from master.kube.store import Store
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import Request


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a request for capacity has for the pods that consume it.

    `request`: the job that it asks for, None where that cannot be read. `hold`: the booking for its
    pods. `awaits`: why they have to wait for it, empty where they do not.
    """

    request: Request | None = None
    hold: HoldId | None = None
    awaits: str = ""


class Reservations(Protocol):
    """The requests for capacity, as gangs see them."""

    @property
    def stores(self) -> tuple[Store[Any], ...]:
        """The requests."""
        ...

    def find(self, key: Key) -> Reservation | None:
        """Return what a request has for its pods; None where its kind is left alone."""
        ...

    def nodes(self, holds: Iterable[HoldId]) -> Collection[NodeName]:
        """Return the nodes that those holds among these book which are of requests."""
        ...

    def note_taken(self, holds: Iterable[HoldId]) -> None:
        """Note that pods take over the holds among these that are of requests."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The watched resources; PodGroups and queues only if Volcano is installed.

    `jobs` are those that say how many pods they have. `scheduling_groups` and `composite_groups`
    are the PodGroups of Kubernetes, only where those are used. `is_answered`: what pods name beside
    these (volumes, devices), and the jobs were listed, or cannot be: the API server lacks the kind,
    or refuses it to this master. `reservations`: what pods consume of ProvisioningRequests, None
    where those are not answered.
    """

    nodes: Store[NodeObject]
    pods: Store[ClusterPod]
    pod_groups: Store[PodGroupObject]
    queues: Store[QueueObject]
    quotas: Store[QuotaObject]
    ended_pods: Store[EndedPod]
    scheduling_groups: Store[SchedulingGroupObject]
    composite_groups: Store[CompositeGroupObject]
    volumes: Volumes
    devices: DeviceCounts
    is_answered: Callable[[], bool]
    jobs: Sequence[Store[JobObject]] = ()
    reservations: Reservations | None = None
