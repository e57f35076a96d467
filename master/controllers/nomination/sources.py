"""The cluster objects that the nomination controller reads."""

from dataclasses import dataclass

from master.kube.gang_pod import ClusterPod, EndedPod
from master.kube.objects import NodeObject, QuotaObject
from master.kube.store import Store
from master.kube.volcano import PodGroupObject, QueueObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The watched resources; PodGroups and queues only if Volcano is installed."""

    nodes: Store[NodeObject]
    pods: Store[ClusterPod]
    pod_groups: Store[PodGroupObject]
    queues: Store[QueueObject]
    quotas: Store[QuotaObject]
    ended_pods: Store[EndedPod]
