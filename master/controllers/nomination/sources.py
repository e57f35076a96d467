"""The cluster objects that the nomination controller reads."""

from collections.abc import Callable
from dataclasses import dataclass

from master.controllers.nomination.volumes import Volumes
from master.kube.dra.counts import DeviceCounts
from master.kube.gang_pod import ClusterPod, EndedPod
from master.kube.objects import NodeObject, QuotaObject
from master.kube.schedulers.scheduling_groups import SchedulingGroupObject
from master.kube.schedulers.volcano import PodGroupObject, QueueObject
from master.kube.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The watched resources; PodGroups and queues only if Volcano is installed.

    `scheduling_groups` are the PodGroups of Kubernetes, only where those are used. `is_answered`:
    what pods name beside these (volumes, devices) was listed, or cannot be: the API server lacks
    the kind, or refuses it to this master.
    """

    nodes: Store[NodeObject]
    pods: Store[ClusterPod]
    pod_groups: Store[PodGroupObject]
    queues: Store[QueueObject]
    quotas: Store[QuotaObject]
    ended_pods: Store[EndedPod]
    scheduling_groups: Store[SchedulingGroupObject]
    volumes: Volumes
    devices: DeviceCounts
    is_answered: Callable[[], bool]
