"""Clusters of machines that exist, by name, for streams of jobs: nodes of eight GPUs.

The sizes of their domains are the makers' published ones. How many domains a cluster has is ours:
about a thousand nodes, as in `topo.sim.worlds.maps.GRIDS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from topo.model.ids import DRAGONFLY, SWITCHBOX, Kind
from topo.placement.capacity.host import Host
from topo.sim.worlds.maps import grid


@dataclass(frozen=True, slots=True)
class Machine:
    """Even top groups of even domains; `kinds` are the top groups' and the domains'."""

    tops: int
    domains: int
    nodes: int
    gpu_type: str
    kinds: tuple[Kind, Kind]

    def hosts(self) -> tuple[Host, ...]:
        """Every node of the cluster, open and empty."""
        return tuple(
            replace(host, kinds=self.kinds, gpu_type=self.gpu_type)
            for host in grid(self.tops, self.domains, self.nodes)
        )


MACHINES: Mapping[str, Machine] = {
    "metax-c500-2x8": Machine(40, 16, 2, "MXC500", (SWITCHBOX, DRAGONFLY)),
    "metax-c550-cube-4x8": Machine(32, 8, 4, "MXC550", (Kind("row"), DRAGONFLY)),
    "metax-8x8": Machine(16, 8, 8, "MXC500", (SWITCHBOX, DRAGONFLY)),
    "cm384-48x8": Machine(5, 4, 48, "Ascend910C", (Kind("row"), Kind("supernode"))),
}
"""Dragonflies of two hosts; the 2x2 cube; 64 cards; CloudMatrix384 (arXiv 2506.12708): 48 nodes."""
