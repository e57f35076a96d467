"""Koordinator's `ClusterNetworkTopology`: one for the cluster, with one chain of layers.

Its scheduler reads the one that is called `default`, and of a node that lacks a label of a layer it
knows no place. So it is the chain of the most nodes. A layer is called as Koordinator calls its
own: the kind `nvlink-domain` is the layer NvlinkDomainLayer.

Source: `scheduling.koordinator.sh/v1alpha1` of koordinator, cluster_network_topology_types.go and
pkg/scheduler/plugins/coscheduling/networktopology (its layers form one chain).
"""

from collections.abc import Iterable
from typing import Any

from topo.model.ids import Kind
from topo.publish.topologies.chains import TierChain
from topo.publish.topologies.wanted import ObjectName, WantedObjects

API_VERSION = "scheduling.koordinator.sh/v1alpha1"
TOPOLOGY, NAME = "ClusterNetworkTopology", "default"
_NODES = "NodeTopologyLayer"
_LABEL, _LAYER, _PARENT = "labelKey", "topologyLayer", "parentTopologyLayer"


def koordinator_objects(chains: Iterable[TierChain]) -> WantedObjects:
    """Return the one object, none without groups; `chains` has that of the most nodes first."""
    chain = next(iter(chains), None)
    if chain is None:
        return {}
    layers: list[dict[str, Any]] = []
    parent: dict[str, str] = {}
    for kind, label in zip(chain.kinds, chain.labels, strict=True):
        layers.append({_LABEL: [label], _LAYER: layer(kind), **parent})
        parent = {_PARENT: layer(kind)}
    layers.append({_LAYER: _NODES, **parent})
    return {ObjectName(TOPOLOGY, NAME): {"networkTopologySpec": layers}}


def layer(kind: Kind) -> str:
    """Return the layer of a kind of groups: `SwitchboxLayer` for `switchbox`."""
    words = "".join(each if each.isalnum() else " " for each in kind).split()
    return "".join(word[:1].upper() + word[1:] for word in words) + "Layer"
