"""A cluster's own statements about its nodes, in terms of Kubernetes.

https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/node-v1/
"""

from dataclasses import dataclass

from topo.model.ids import NodeName

TRAINING, INFERENCE, HYBRID = "training", "inference", "hybrid"
"""What a pool of nodes is meant for; both kinds of jobs may use a hybrid one."""
USAGES = (TRAINING, INFERENCE)
"""What a job can be."""


@dataclass(frozen=True, slots=True)
class Taint:
    """As Kubernetes defines it; `PreferNoSchedule` never excludes."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


def quarantine_taint(domain: str) -> Taint:
    """Return the taint by which a master keeps every new pod off a node in quarantine."""
    return Taint(f"{domain}/quarantine", "topo-master", "NoSchedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """One node object. A field at its default says nothing.

    `labels` are (key, value) pairs; `unschedulable` is a cordon; `ready` the condition of that
    name. `allocatable` are (resource, number) pairs, None where the cluster does not say. `pool` is
    what the node is meant for: `training`, `inference`, `hybrid`, or another word, which no job
    with a usage fits. `shared` are the resources in which its cards are shared, each with the
    number in its own unit; a node that has one offers no whole GPU.
    """

    name: NodeName
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    allocatable: tuple[tuple[str, int], ...] | None = None
    pool: str = ""
    shared: tuple[tuple[str, int], ...] = ()
