"""What a gang waits for before its scheduler lets it start: volumes, its PodGroup, quota."""

from collections.abc import Iterable, Sequence

from master.controllers.nomination.gangs.context import GangContext
from master.controllers.nomination.queues.quota import AskedGpus, MissingQuota
from master.kube.gang_pod import GangPod
from master.kube.schedulers.conditions import explanation
from master.kube.schedulers.volcano import PodGroupObject
from topo.gangs.machine.gang import GangId

LET_IN = frozenset({"Inqueue", "Running", "Unknown", "Completed"})
"""Phases of a PodGroup whose pods Volcano's scheduler takes up."""


def awaited_quota(
    gang_id: GangId, pods: Sequence[GangPod], context: GangContext
) -> MissingQuota | None:
    """Return why its scheduler does not admit the gang yet; None for a gang that may start."""
    missing_volume = (context.missing_volume(pod) for pod in pods if pod.gated and pod.claims)
    if text := next(filter(None, missing_volume), ""):
        return MissingQuota(text)
    key = pods[0].pod_group
    if key is None:
        return _awaited_group(pods[0], context)
    group = context.pod_group(pods[0])
    if group is None:
        return MissingQuota(f"its PodGroup {key[1]} is not there yet")
    asked = asked_gpus(gang_id, pods, group)
    missing = context.missing_quota(asked) if asked is not None else None
    if group.status.phase in LET_IN or (missing is not None and missing.never):
        return missing
    why = explanation(group.status.conditions)
    phase = group.status.phase or "not looked at yet"
    said = f": {why[:200]}" if why else ""
    return MissingQuota(f"its PodGroup is {phase} in queue {group.spec.queue}{said}")


def _awaited_group(first: GangPod, context: GangContext) -> MissingQuota | None:
    """Return that the PodGroup of Kubernetes is not there, without which no pod of it is tried."""
    above, key = first.composite_group, first.scheduling_group
    is_listed = above is not None and context.composite_groups() is not None
    if above is not None and is_listed and context.composite_group(first) is None:
        return MissingQuota(f"its CompositePodGroup {above[1]} is not there")
    if key is None or context.scheduling_groups() is None or context.scheduling_group(first):
        return None
    return MissingQuota(f"its PodGroup {key[1]} is not there yet")


def asked_gpus(
    gang_id: GangId, pods: Iterable[GangPod], group: PodGroupObject | None
) -> AskedGpus | None:
    """Return the GPUs that the gang's gated pods would take in their queue, None for none."""
    asking = [pod for pod in pods if pod.gated and pod.gpus]
    if group is None or not asking:
        return None
    return AskedGpus(
        gang=gang_id,
        queue=group.spec.queue,
        resource=asking[0].resource,
        gpus=sum([pod.gpus for pod in asking]),
    )
