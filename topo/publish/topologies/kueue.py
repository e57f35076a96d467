"""Kueue's `Topology` and `ResourceFlavor` for each chain of tiers, both called like the chain.

A ClusterQueue names the flavor, and the flavor its topology. Of the flavor only the labels and the
topology are ours: taints that an administrator adds stay. Kueue wants a label of nodes beside the
levels. The one that every node has narrows nothing, and stays while cables break: a pod gets it as
its selector, and kubelet checks selectors again when it restarts.

Source: `kueue.x-k8s.io/v1beta2` of Kueue v0.19.2, apis/kueue/v1beta2/topology_types.go and
resourceflavor_types.go.
"""

from collections.abc import Iterable

from topo.publish.topologies.chains import TierChain
from topo.publish.topologies.wanted import ObjectName, WantedObjects, levels

API_VERSION = "kueue.x-k8s.io/v1beta2"
TOPOLOGY, FLAVOR = "Topology", "ResourceFlavor"
EVERY_NODE = {"kubernetes.io/os": "linux"}
"""Every kubelet sets it on its node."""


def kueue_objects(chains: Iterable[TierChain]) -> WantedObjects:
    """Return the topology and the flavor of each chain; O(chains)."""
    found = {}
    for chain in chains:
        found[ObjectName(TOPOLOGY, chain.name)] = levels(chain)
        flavor = {"nodeLabels": EVERY_NODE, "topologyName": chain.name}
        found[ObjectName(FLAVOR, chain.name)] = flavor
    return found
