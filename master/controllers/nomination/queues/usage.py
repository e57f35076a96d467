"""The GPUs that the pods of each Volcano queue have and request, counted pod by pod.

A pod changes only the sums of its PodGroup, and the sums of queues are made of those once after a
change: many gangs ask one after the other. A pod counts as soon as the controller decides to open
its gate: it still looks gated when the next gang asks for the same GPUs. It counts so while it is
gated and has its place, or its gate is opened by a write on its way: a place that is given up gives
the quota back.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from master.controllers.nomination.queues.quota import AskedGpus, MissingQuota, Usage, missing_quota
from master.controllers.nomination.queues.reserved import OpeningPods, ReservedQuota
from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import Key, key_of
from master.kube.reflector import Changed, Listed, StoreEvent
from master.kube.schedulers.volcano import PodGroupObject, QueueObject
from master.kube.store import Store
from topo.gangs.machine.gang import GangId, PodUid


class QueuePlugin(StrEnum):
    """The Volcano plugin that manages queues; the scheduler's configuration names one of them."""

    PROPORTION = "proportion"
    """Queues share the cluster by weight (Volcano's default configuration)."""
    CAPACITY = "capacity"
    """Each queue has the amounts in its spec."""


@dataclass(frozen=True, slots=True)
class QueueShare:
    """What one pod adds to its PodGroup: its GPUs, and whether it only requests them so far.

    A pod that waits without our gate only requests GPUs: it takes none while it does not fit.
    """

    group: Key
    gpus: int
    asks: bool


class QueueCounts:
    """GPUs by queue. `weighted`: queues share the cluster by weight.

    `total` returns the GPUs of the cluster; it is called at each query, so it must be O(1).
    """

    def __init__(
        self,
        queues: Store[QueueObject],
        pod_groups: Store[PodGroupObject],
        total: Callable[[], int],
        *,
        weighted: bool,
    ) -> None:
        self._queues, self._pod_groups = queues, pod_groups
        self._total, self._weighted = total, weighted
        self._shares: dict[Key, QueueShare] = {}
        self._taken: Counter[Key] = Counter()
        self._asked: Counter[Key] = Counter()
        self._reserved = ReservedQuota()
        self._sums: tuple[Counter[str], Counter[str]] | None = None
        """`_taken` and `_asked` by queue; None after a change."""
        pod_groups.subscribe(lambda _: self._forget_sums())

    def follow_pods(self, told: StoreEvent[ClusterPod]) -> bool:
        """Update the sums for a change that the reflector reports; return whether any changed."""
        if isinstance(told, Listed):
            self._forget_sums()
            self._shares.clear()
            self._taken.clear()
            self._asked.clear()
            for key, pod in told.objects.items():
                self._set(key, share_of(pod))
            for key in self._reserved.keys:
                self._reserved.count(key, self._gated_gpus(key))
            return True
        share = share_of(told.object) if isinstance(told, Changed) else None
        if share == self._shares.get(told.key):
            return False
        self._set(told.key, share)
        return True

    def reserve(self, gang_id: GangId, queue: str, pods: Iterable[GangPod]) -> None:
        """Count these pods of a gang as having their GPUs, because their gates are being opened."""
        keys = {PodUid(pod.metadata.uid): key_of(pod.metadata) for pod in pods}
        self._reserved.put(gang_id, queue, keys)
        for key in keys.values():
            self._reserved.count(key, self._gated_gpus(key))

    def retain(self, find: Callable[[GangId], OpeningPods | None]) -> bool:
        """Reserve for no other pods than those whose gates are being opened, by what `find` returns
        for a gang; return whether something is given back.
        """
        return self._reserved.retain(find)

    def missing(self, asked: AskedGpus) -> MissingQuota | None:
        """Return why a queue has no room for a gang now; O(queues²), and O(PodGroups) after a
        change.
        """
        queues = {name: each for (_, name), each in self._queues.objects.items()}
        return missing_quota(asked, queues, self._usage(asked.gang))

    def _usage(self, but: str) -> Usage:
        if self._sums is None:
            self._sums = self._by_queue(self._taken), self._by_queue(self._asked)
        taken = self._sums[0].copy()
        wanted = taken + self._sums[1]
        for queue, gpus in self._reserved.by_queue(but):
            taken[queue] += gpus
        return Usage(taken=taken, wanted=wanted if self._weighted else None, total=self._total())

    def _gated_gpus(self, key: Key) -> int:
        """Return the GPUs of a pod that is not seen open yet; 0 for any other."""
        share = self._shares.get(key)
        return share.gpus if share is not None and share.asks else 0

    def _forget_sums(self) -> None:
        self._sums = None

    def _by_queue(self, sums: Mapping[Key, int]) -> Counter[str]:
        found: Counter[str] = Counter()
        groups = self._pod_groups.objects
        for key, gpus in sums.items():
            if (group := groups.get(key)) is not None:
                found[group.spec.queue] += gpus
        return found

    def _set(self, key: Key, share: QueueShare | None) -> None:
        self._forget_sums()
        before = self._shares.pop(key, None)
        if share is not None:
            self._shares[key] = share
        self._reserved.count(key, self._gated_gpus(key))
        # The old share out, the new one in: sums never have to be counted again.
        for each, sign in ((before, -1), (share, 1)):
            if each is not None:
                sums = self._asked if each.asks else self._taken
                sums[each.group] += sign * each.gpus
                if not sums[each.group]:
                    del sums[each.group]


def share_of(pod: ClusterPod) -> QueueShare | None:
    """Return what a pod adds to its PodGroup's sums; None without GPUs or without a PodGroup.

    A pod whose gate this controller opened counts as having its GPUs: its scheduler binds it next.
    """
    if pod.pod_group is None or not pod.gpus or pod.finished:
        return None
    has = pod.node is not None or (isinstance(pod, GangPod) and pod.opened)
    return QueueShare(pod.pod_group, pod.gpus, asks=not has)
