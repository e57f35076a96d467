"""Pods that no plan reached: their job passed our webhook by, or can have no groups, or its
scheduler ignores them.
"""

from collections.abc import Mapping

from master.controllers.nomination.index import GangIndex
from master.controllers.nomination.native import NativeGangs
from master.controllers.nomination.status.status_writer import StatusWriter
from master.kube.gang_pod import GangPod
from master.kube.objects import Key
from master.kube.store import Store
from master.kube.volcano import PodGroupObject


class BypassedWebhook:
    """Tells of each such pod or job once, for as long as it is there."""

    def __init__(
        self,
        index: GangIndex,
        native: NativeGangs,
        pod_groups: Store[PodGroupObject],
        writer: StatusWriter,
    ) -> None:
        self._index, self._native = index, native
        self._pod_groups, self._writer = pod_groups, writer
        self._slipped: set[str] = set()
        self._ignored: set[str] = set()
        self._ungrouped: set[str] = set()

    def pods(self) -> Mapping[Key, GangPod]:
        """The pods that are there and were made without our webhook."""
        native = self._native.bypassed(self._pod_groups.objects)
        return {**self._index.bypassed, **dict(native)}

    def tell(self, why_ignored: str, now_s: float) -> int:
        """How many pods came since the last time; `why_ignored` is empty where groups are heeded,
        and `now_s` is Unix time.
        """
        there = {pod.metadata.uid: pod for pod in self.pods().values()}
        found = {pod.metadata.uid: pod for pod in self._index.take_bypassed()} | there
        came = found.keys() - self._slipped
        for uid in came:
            self._writer.write_bypassed(found[uid], now_s)
        self._slipped = set(there)
        self._tell_ungrouped(now_s)
        jobs = self._native.jobs() if why_ignored else {}
        for uid in jobs.keys() - self._ignored:
            self._writer.write_ignored(jobs[uid], why_ignored, now_s)
        self._ignored = set(jobs)
        return len(came)

    def _tell_ungrouped(self, now_s: float) -> None:
        """The webhook could only warn who submitted the job, who may be a program."""
        jobs = self._index.ungrouped()
        for job in jobs.keys() - self._ungrouped:
            self._writer.write_ungrouped(jobs[job], jobs[job].ungrouped or "", now_s)
        self._ungrouped = set(jobs)
