"""What the controller of gangs reads of the cluster."""

from dataclasses import dataclass

from master.kube.gang_pod import ClusterPod
from master.kube.objects import NodeObject
from master.kube.store import Store
from master.kube.volcano import PodGroupObject, QueueObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The watched kinds; PodGroups and queues are those of Volcano, if it is installed."""

    nodes: Store[NodeObject]
    pods: Store[ClusterPod]
    pod_groups: Store[PodGroupObject]
    queues: Store[QueueObject]
