"""KAI's `Topology` for each chain of tiers; workloads name it in `kai.scheduler/topology`.

Source: `kai.scheduler/v1alpha1` of NVIDIA/KAI-Scheduler, pkg/apis/kai/v1alpha1/topology_types.go.
"""

from collections.abc import Iterable

from topo.publish.topologies.chains import TierChain
from topo.publish.topologies.wanted import ObjectName, WantedObjects, levels

API_VERSION = "kai.scheduler/v1alpha1"
TOPOLOGY = "Topology"


def kai_objects(chains: Iterable[TierChain]) -> WantedObjects:
    """Return the topology of each chain; O(chains)."""
    return {ObjectName(TOPOLOGY, chain.name): levels(chain) for chain in chains}
