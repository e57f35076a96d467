"""What operators decide about placement, and how much may be held."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from master.settings.cluster import ClusterSettings
from topo.kit.settings import Chart, CommaList, Count
from topo.model.errors import Refusal
from topo.model.ids import GroupName, GroupPath
from topo.placement.booking.holds import Limits
from topo.placement.job.policy import CANONICAL_GPUS, OTHERS_SHARED, Policy


class BookingSettings(ClusterSettings):
    """What operators decide about placement, and how much may be held."""

    canonical_group_size: Annotated[
        int, Field(ge=1, le=1_000_000), Chart("topoDiscovery.master.canonicalGroupSize")
    ] = CANONICAL_GPUS
    """GPUs of a canonical group; placement keeps free as many whole groups of this size as it
    can."""
    reserve_groups: Annotated[CommaList, Chart("topoDiscovery.master.reserveGroups")] = ()
    """Canonical groups to keep free in a part of the tree: `<path>=<groups>`, with the names of the
    path joined by /. They are used only if nothing else fits."""
    gpu_type_order: Annotated[CommaList, Chart("topoDiscovery.master.gpuTypeOrder")] = ()
    """GPU types in order of preference between equal placements of a job that names none."""
    extra_domains: Annotated[
        int, Field(ge=0, le=1_000), Chart("topoDiscovery.master.extraDomains")
    ] = 0
    """Groups of a tier that a placement may use beyond the fewest, if that keeps more canonical
    groups whole."""
    max_holds: Annotated[Count, Chart("topoDiscovery.master.maxHolds")] = 1000
    """Holds that may exist at once, committed ones and one for each waiting gang included."""
    ahead_share: Annotated[float, Field(ge=0, le=1), Chart("topoDiscovery.master.aheadShare")] = (
        0.25
    )
    """Part of all GPUs of a type that jobs of one namespace may keep for pods that are not made
    yet, where no ResourceQuota bounds its GPUs; 1: no limit, 0: none without a quota."""
    booking_log: Path | None = None
    """File that records holds, pods and nodes as they change, for `topo sim replay`."""
    gpu_resources: Annotated[CommaList, Chart("topoDiscovery.master.gpuResources")] = ()
    """Resources that are whole GPUs; of a node the first that it has counts. `<domain>/gpu` and
    `nvidia.com/gpu` by default."""
    node_usage_key: Annotated[str, Chart("topoDiscovery.master.nodeUsageKey")] = ""
    """Label and taint that say what a node is for (training, inference, hybrid);
    `<domain>/node.usage` by default."""

    def own_refusals(self) -> tuple[Refusal, ...]:
        """Return what is wrong between the fields of this group."""
        fix = "write <path>=<groups>, such as switchbox-1=2 or switchbox-1/dragonfly-3=1"
        wrong = [text for text in self.reserve_groups if _reserve(text) is None]
        return tuple(
            Refusal(f"{text!r} is not a reserve", "--reserve-groups", fix) for text in wrong[:1]
        )

    @property
    def policy(self) -> Policy:
        """What the operator decides about placement."""
        reserves = (_reserve(text) for text in self.reserve_groups)
        domain = self.domain
        return Policy(
            canonical_gpus=self.canonical_group_size,
            reserves=tuple(reserve for reserve in reserves if reserve is not None),
            gpu_types=self.gpu_type_order,
            extra_domains=self.extra_domains,
            domain=domain,
            gpu_resources=self.gpu_resources or (f"{domain}/gpu", "nvidia.com/gpu"),
            usage_key=self.node_usage_key or f"{domain}/node.usage",
            hold_key=f"{domain}/hold",
            shared_resources=(f"{domain}/sgpu", *OTHERS_SHARED),
        )

    @property
    def hold_limits(self) -> Limits:
        """How much may be held."""
        return Limits(self.max_holds)


def _reserve(text: str) -> tuple[GroupPath, int] | None:
    """`switchbox-1/dragonfly-3=2` as a path and a number; None for another text."""
    path, _, number = text.rpartition("=")
    names = path.split("/")
    if not all(names) or not (number.isascii() and number.isdigit()) or len(number) > 6:
        return None
    return GroupPath(tuple(map(GroupName, names))), int(number)
