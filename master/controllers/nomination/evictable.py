"""Which pods a scheduler may evict for a gang: bound ones of lower priority, as it goes about them.

kube-scheduler evicts any pod of lower priority on a node that it needs. Volcano's action `preempt`
evicts pods of its own jobs in the queue of the gang, but those with `volcano.sh/preemptable: false`
(`Execute` in pkg/scheduler/actions/preempt/preempt.go, `GetPodPreemptable`, v1.14).
"""

from collections.abc import Collection, Iterator, Mapping

from master.controllers.nomination.gang_builder import POD_GROUP, gpus_of, owner_of
from master.kube.objects import Key, PodObject
from master.kube.volcano import PodGroupObject
from topo.gangs.decisions.eviction import Evictable
from topo.gangs.machine.gang import Binding, Gang
from topo.model.ids import NodeName
from topo.placement.job.policy import Policy

PREEMPTABLE = "volcano.sh/preemptable"
_FALSE = frozenset({"0", "f", "F", "false", "False", "FALSE"})
"""As Go reads a truth value."""


def evictable(
    gang: Gang,
    pods: Collection[PodObject],
    groups: Mapping[Key, PodGroupObject],
    *,
    below: int,
    policy: Policy,
) -> Iterator[Evictable]:
    """The pods that may have to go for a gang, of a priority below this; O(pods)."""
    own = {member.uid for member in gang.members}
    mine = next((pod for pod in pods if pod.metadata.uid in own), None)
    queue = _queue(mine, groups) if mine is not None else ""
    for pod in pods:
        gpus = gpus_of(pod, policy)[1]
        if not gpus or not pod.spec.node_name or pod.spec.priority >= below:
            continue
        if pod.status.phase in {"Succeeded", "Failed"} or pod.metadata.uid in own:
            continue
        if gang.binding is Binding.WHOLE and not (queue and _queue(pod, groups) == queue):
            continue
        if gang.binding is Binding.WHOLE and _is_kept(pod):
            continue
        metadata = pod.metadata
        yield Evictable(
            owner=f"pod/{metadata.namespace}/{metadata.name}/{metadata.uid}",
            node=NodeName(pod.spec.node_name),
            gpus=gpus,
            priority=pod.spec.priority,
            unit=_unit(pod),
        )


def _queue(pod: PodObject, groups: Mapping[Key, PodGroupObject]) -> str:
    name = pod.metadata.annotations.get(POD_GROUP)
    group = groups.get((pod.metadata.namespace, name)) if name else None
    return group.spec.queue if group is not None else ""


def _is_kept(pod: PodObject) -> bool:
    metadata = pod.metadata
    said = metadata.annotations.get(PREEMPTABLE, metadata.labels.get(PREEMPTABLE))
    return said in _FALSE


def _unit(pod: PodObject) -> str:
    """The job that breaks without the pod; the pod itself where its owner only makes another."""
    metadata, owner = pod.metadata, owner_of(pod)
    if owner is None or (POD_GROUP not in metadata.annotations and owner.kind != "Job"):
        return f"{metadata.namespace}/{metadata.name}"
    return f"{metadata.namespace}/{owner.name}"
