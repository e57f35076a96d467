"""What a cluster says of its own nodes, in the words of Kubernetes; the other half is the forest.

https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/node-v1/
"""

from dataclasses import dataclass

from topo.model.ids import NodeName

NO_WORKER_CODE = "no-worker"
"""The reason of a node that the cluster lists and no worker has reported yet."""
NODE_NOT_READY_CODE = "node-not-ready"
"""The reason of a node that the cluster itself finds not Ready."""


@dataclass(frozen=True, slots=True)
class Taint:
    """As Kubernetes defines it; `PreferNoSchedule` never excludes."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """One node object. A field at its default says nothing.

    `labels` are (key, value) pairs; `unschedulable` is a cordon; `ready` the condition of that
    name. `allocatable` are (resource, number) pairs, None where the cluster does not say. `pool` is
    what the node is meant for: `training`, `inference`, `hybrid`.
    """

    name: NodeName
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    allocatable: tuple[tuple[str, int], ...] | None = None
    pool: str = ""
