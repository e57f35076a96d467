"""Which pods a scheduler may evict for a gang: bound pods of lower priority, by its own rules.

kube-scheduler evicts any pod of lower priority on a node that it needs. Volcano's action `preempt`
evicts pods of its own jobs in the gang's queue, except those with `volcano.sh/preemptable: false`
(`Execute` in pkg/scheduler/actions/preempt/preempt.go, `GetPodPreemptable`, v1.14).
"""

from collections.abc import Iterator, Mapping

from master.kube.gang_pod import ClusterPod
from master.kube.objects import Key
from master.kube.schedulers.volcano import PodGroupObject
from topo.gangs.decisions.eviction import Evictable
from topo.gangs.machine.gang import Binding, Gang
from topo.model.ids import NodeName


def evictable_pods(
    gang: Gang,
    pods: Mapping[Key, ClusterPod],
    groups: Mapping[Key, PodGroupObject],
    *,
    below: int,
) -> Iterator[Evictable]:
    """Yield the pods of priority below `below` that may be evicted for a gang; O(pods)."""
    own = {member.uid for member in gang.members}
    first = pods.get((gang.namespace, gang.members[0].name)) if gang.members else None
    queue = _queue(first, groups) if first is not None else ""
    for pod in pods.values():
        if not pod.gpus or pod.node is None or pod.priority >= below:
            continue
        if pod.finished or pod.metadata.uid in own:
            continue
        if gang.binding is Binding.WHOLE and not (
            pod.is_preemptable and queue and _queue(pod, groups) == queue
        ):
            continue
        yield _evictable(pod, pod.node)


def _evictable(pod: ClusterPod, node: NodeName) -> Evictable:
    metadata = pod.metadata
    return Evictable(
        owner=f"pod/{metadata.namespace}/{metadata.name}/{metadata.uid}",
        node=node,
        gpus=pod.gpus,
        priority=pod.priority,
        unit=_unit(pod),
    )


def _queue(pod: ClusterPod, groups: Mapping[Key, PodGroupObject]) -> str:
    group = groups.get(pod.pod_group) if pod.pod_group is not None else None
    return group.spec.queue if group is not None else ""


def _unit(pod: ClusterPod) -> str:
    """Return the job that the pod's eviction breaks; the pod if its owner replaces it."""
    metadata, owner = pod.metadata, pod.owner
    if owner is None or (pod.pod_group is None and owner.kind != "Job"):
        return f"{metadata.namespace}/{metadata.name}"
    return f"{metadata.namespace}/{owner.name}"
