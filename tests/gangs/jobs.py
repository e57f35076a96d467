"""Jobs as their users submit them, and the nodes that they run on."""

from dataclasses import dataclass

from tests.support.capacity import cluster
from topo.gangs.machine.gang import Binding, GangId
from topo.model.pod_requests import Amounts
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.request import PlacementMode, Request


def dragonflies(*boxes: int) -> Capacity:
    """The vendor's shape: a switchbox for each number, with so many dragonflies of two nodes."""
    return cluster(*((2,) * box for box in boxes))


@dataclass(slots=True)
class Job:
    """A job as its user submitted it."""

    id: GangId
    request: Request
    binding: Binding = Binding.WHOLE
    at_least: int = 0
    priority: int = 0
    created_s: float = 0.0
    wait_s: float | None = None
    awaits: str = ""
    ungated: str = ""
    is_late: bool = False
    """Whether its controller makes some of its pods only once others run."""
    is_elastic: bool = False
    """Whether its pods may come and go while others run."""
    sizes: tuple[int, ...] = ()
    """The GPUs of its pods by rank, again and again; empty: all take as many as the largest."""
    takes: Amounts = ()
    """What each of its pods takes beside GPUs."""

    def gpus_of(self, rank: int) -> int:
        """The GPUs of the pod of a rank."""
        return self.sizes[rank % len(self.sizes)] if self.sizes else self.request.gpus_per_pod


def job(name: str, pods: int, size: int | None = 16, **more: object) -> Job:
    """A job of pods of eight GPUs in groups of 16: a dragonfly of two nodes each."""
    mode = PlacementMode(str(more.pop("mode", "required")))
    request = Request(pods=pods, gpus_per_pod=8, group_size=size, mode=mode)
    return Job(GangId(name), request, **more)  # type: ignore[arg-type]
