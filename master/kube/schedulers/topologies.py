"""Topologies of Kueue, KAI and Koordinator, and the queues of Kueue that name them.

Sources: `kueue.x-k8s.io/v1beta2` of Kueue v0.19.2, `kai.scheduler/v1alpha1` of
NVIDIA/KAI-Scheduler, `scheduling.koordinator.sh/v1alpha1` of koordinator.
"""

from dataclasses import field
from typing import Any

from master.kube.objects import Metadata, Resource
from master.kube.schema.slim import slim
from topo.publish.topologies import kai, koordinator, kueue


@slim
class TopologyObject:
    """An object whose spec is compared as it is: a topology, or a flavor that names one."""

    metadata: Metadata
    spec: dict[str, Any] = field(default_factory=dict)


@slim
class FlavorQuotas:
    """The quotas of a flavor in a queue, of which only its name is read."""

    name: str = ""


@slim
class ResourceGroup:
    """Flavors that are tried in this order."""

    flavors: tuple[FlavorQuotas, ...] = ()


@slim
class ClusterQueueSpec:
    """The flavors of a queue."""

    resource_groups: tuple[ResourceGroup, ...] = ()


@slim
class ClusterQueueObject:
    """A queue of Kueue; it names the flavors that its workloads may get."""

    metadata: Metadata
    spec: ClusterQueueSpec = field(default_factory=ClusterQueueSpec)


KUEUE_TOPOLOGIES = Resource(
    kueue.API_VERSION, kueue.TOPOLOGY, "topologies", TopologyObject, namespaced=False
)
KUEUE_FLAVORS = Resource(
    kueue.API_VERSION, kueue.FLAVOR, "resourceflavors", TopologyObject, namespaced=False
)
CLUSTER_QUEUES = Resource(
    kueue.API_VERSION, "ClusterQueue", "clusterqueues", ClusterQueueObject, namespaced=False
)
KAI_TOPOLOGIES = Resource(
    kai.API_VERSION, kai.TOPOLOGY, "topologies", TopologyObject, namespaced=False
)
KOORDINATOR_TOPOLOGIES = Resource(
    koordinator.API_VERSION,
    koordinator.TOPOLOGY,
    "clusternetworktopologies",
    TopologyObject,
    namespaced=False,
)
PUBLISHED_TOPOLOGIES = (KUEUE_FLAVORS, KUEUE_TOPOLOGIES, KAI_TOPOLOGIES, KOORDINATOR_TOPOLOGIES)
"""What masters may have written, in the order in which it is taken away."""
