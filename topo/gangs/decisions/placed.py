"""The places of the pods of a `Place`, as the decisions pass them on."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from topo.gangs.decisions.eviction import Evictable
from topo.gangs.machine.gang import Member
from topo.gangs.machine.instructions import Place
from topo.gangs.note_codec import MAX_INSIDE_CHARS
from topo.model.ids import NodeName
from topo.placement.booking.holds import Gpus
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host
from topo.placement.capacity.other_fabrics import in_words, shared_group
from topo.placement.capacity.room_limits import RoomChange
from topo.placement.job.plan import PlannedGroup
from topo.placement.job.request import PlacementMode, Request

Seat = tuple[Member, NodeName]
"""A pod and its node."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Nodes for the pods of a `Place`, in its order, and what to hold for them.

    `request` covers only these pods and those of `Place.held`, not the rest of the gang. `evicted`
    are the pods to evict for the plan; if there are any, nothing is held. `slack`: the GPUs of
    these places that their pods do not ask for, by node; they are not held.
    """

    nodes: tuple[NodeName, ...]
    request: Request
    groups: tuple[PlannedGroup, ...]
    mode: PlacementMode
    gpu_type: str
    certified: bool
    evicted: tuple[Evictable, ...] = ()
    slack: Gpus = ()

    def inside(self, capacity: CapacityView) -> str:
        """Return the group of the kind named that all nodes share, in words; empty for no kind."""
        hosts = filter(None, map(capacity.host, self.nodes))
        shared = shared_group(hosts, self.request.within, capacity.kinds())
        return in_words(shared)[:MAX_INSIDE_CHARS] if shared is not None else ""


def kept_host(capacity: CapacityView, asked: Place) -> Host | None:
    """Return the first host of pods that stay that is known; O(pods whose nodes are gone)."""
    return next(filter(None, (capacity.host(node) for _, node in asked.kept)), None)


def sum_gpus(seats: Iterable[Seat], largest: int) -> dict[NodeName, int]:
    """Return the GPUs that pods ask for at their places, by node; O(pods)."""
    gpus: dict[NodeName, int] = {}
    for pod, node in seats:
        gpus[node] = gpus.get(node, 0) + pod.takes_gpus(largest)
    return gpus


def slack_of(seats: Iterable[Seat], largest: int) -> Gpus:
    """Return the GPUs of places for the largest pod that their pods do not ask for, by node.

    O(pods).
    """
    slack = Counter[NodeName]()
    for pod, node in seats:
        slack[node] += largest - pod.takes_gpus(largest)
    return tuple((node, gpus) for node, gpus in slack.items() if gpus)


def with_pods(
    capacity: CapacityView, owner: str, pods: Mapping[NodeName, int], gpus: int
) -> CapacityView:
    """Return the capacity as if an owner had so many pods on nodes, of all that each takes there.

    Each takes `gpus`, and beside them what the capacity is asked about. O(nodes of the pods).
    """
    taken = {node: number * gpus for node, number in pods.items()}
    return capacity.with_changes(taken={owner: taken}, room=RoomChange(pods=pods))
