"""The places of the pods of a `Place`, as the decisions pass them on."""

from dataclasses import dataclass

from topo.gangs.decisions.eviction import Evictable
from topo.model.ids import NodeName
from topo.placement.job.plan import PlannedGroup
from topo.placement.job.request import PlacementMode, Request


@dataclass(frozen=True, slots=True)
class Placed:
    """Nodes for the pods of a `Place`, in its order, and what to hold for them.

    `request` covers only these pods and those of `Place.held`, not the rest of the gang. `evicted`
    are the pods to evict for the plan; if there are any, nothing is held.
    """

    nodes: tuple[NodeName, ...]
    request: Request
    groups: tuple[PlannedGroup, ...]
    mode: PlacementMode
    gpu_type: str
    certified: bool
    evicted: tuple[Evictable, ...] = ()
