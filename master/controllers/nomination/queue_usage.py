"""What the pods of each queue of Volcano have and ask for, counted as the cluster tells it.

A pod changes the sums of its PodGroup alone, so that a question costs the PodGroups, not the pods.
A gang that was let go counts from that moment: its pods are still seen gated when the next gang
asks for the same room.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from master.controllers.nomination.gang_builder import POD_GROUP, gpus_of
from master.controllers.nomination.queues.quota import AskedGpus, MissingQuota, Usage, missing_quota
from master.kube.objects import Key, PodObject, key_of
from master.kube.reflector import Changed, Listed, Removed
from master.kube.store import Store
from master.kube.volcano import PodGroupObject, QueueObject
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.gang import GangId
from topo.placement.job.policy import Policy


class QueuePlugin(StrEnum):
    """Volcano's plugin that keeps queues; its scheduler's configuration names one of them."""

    PROPORTION = "proportion"
    """Queues share what is there by weight (Volcano's own configuration)."""
    CAPACITY = "capacity"
    """They have what is stated of each."""


@dataclass(frozen=True, slots=True)
class QueueShare:
    """What one pod adds: its PodGroup, its GPUs, and whether it only asks for them yet.

    Pods that wait ungated do: they take nothing while they do not fit, and may never.
    """

    group: Key
    gpus: int
    asks: bool


class QueueCounts:
    """GPUs by queue. `share`: what a pod adds, None for one without GPUs or a PodGroup.

    `weighted`: queues share what is there by weight. `total`: the GPUs of the cluster, asked for at
    each question, so it is to be kept, not counted: `Capacity.gpus`.
    """

    def __init__(
        self,
        queues: Store[QueueObject],
        pod_groups: Store[PodGroupObject],
        share: Callable[[PodObject], QueueShare | None],
        total: Callable[[], int],
        *,
        weighted: bool,
    ) -> None:
        self._queues, self._pod_groups = queues, pod_groups
        self._share, self._total, self._weighted = share, total, weighted
        self._shares: dict[Key, QueueShare] = {}
        self._taken: Counter[Key] = Counter()
        self._asked: Counter[Key] = Counter()
        self._let_go: dict[GangId, tuple[str, int]] = {}
        """Gangs whose gates are being opened: their queue and GPUs, until they are seen open."""

    def pods_told(self, told: Listed[PodObject] | Changed[PodObject] | Removed[PodObject]) -> bool:
        """Takes up what the cluster tells; whether any sum changed."""
        if isinstance(told, Listed):
            self._shares.clear()
            self._taken.clear()
            self._asked.clear()
            for key, pod in told.objects.items():
                self._set(key, self._share(pod))
            return True
        gone = isinstance(told, Removed)
        return self._set(key_of(told.object.metadata), None if gone else self._share(told.object))

    def let_go(self, asked: AskedGpus) -> None:
        """The gang's gates are being opened: what it asks for is taken."""
        self._let_go[GangId(asked.gang)] = asked.queue, asked.gpus

    def seen(self, gang_id: GangId) -> None:
        """The gang is seen open, or is not opened after all: its pods alone count."""
        self._let_go.pop(gang_id, None)

    def missing(self, asked: AskedGpus) -> MissingQuota | None:
        """Why a queue has no room for a gang now; O(PodGroups + queues²)."""
        queues = {name: each for (_, name), each in self._queues.objects.items()}
        return missing_quota(asked, queues, self._usage(asked.gang))

    def _usage(self, but: str) -> Usage:
        taken = self._by_queue(self._taken)
        wanted = taken + self._by_queue(self._asked)
        for gang_id, (queue, gpus) in self._let_go.items():
            if gang_id != but:
                taken[queue] += gpus
        return Usage(taken=taken, wanted=wanted if self._weighted else None, total=self._total())

    def _by_queue(self, sums: Mapping[Key, int]) -> Counter[str]:
        found: Counter[str] = Counter()
        groups = self._pod_groups.objects
        for key, gpus in sums.items():
            if (group := groups.get(key)) is not None:
                found[group.spec.queue] += gpus
        return found

    def _set(self, key: Key, share: QueueShare | None) -> bool:
        before = self._shares.pop(key, None)
        if share is not None:
            self._shares[key] = share
        if before == share:
            return False
        for each, sign in ((before, -1), (share, 1)):
            if each is not None:
                sums = self._asked if each.asks else self._taken
                sums[each.group] += sign * each.gpus
                if not sums[each.group]:
                    del sums[each.group]
        return True


def share_of(pod: PodObject, policy: Policy, keys: AnnotationKeys) -> QueueShare | None:
    """What a pod has of its queue, or asks for: what was opened here, it has."""
    group = pod.metadata.annotations.get(POD_GROUP)
    if group is None or pod.status.phase in {"Succeeded", "Failed"}:
        return None
    gpus = gpus_of(pod, policy)[1]
    if not gpus:
        return None
    is_opened = not pod.spec.scheduling_gates and keys.placement in pod.metadata.annotations
    has = pod.spec.node_name or is_opened
    return QueueShare((pod.metadata.namespace, group), gpus, asks=not has)
