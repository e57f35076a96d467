"""Reports pods that ask for groups and have none.

Either their job bypassed the webhook, or it can have no groups, or its scheduler ignores them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from master.controllers.nomination.index import GangIndex
from master.controllers.nomination.native import NativeGangs
from master.controllers.nomination.status.status_writer import StatusWriter
from master.kube.gang_pod import GangPod
from master.kube.objects import Key
from master.kube.schedulers.volcano import PodGroupObject
from master.kube.schedulers.volcano_config import Configured
from master.kube.store import Store
from topo.gangs.machine.gang import GangId


@dataclass(kw_only=True)
class BypassedWebhook:
    """Writes one Event per such pod or job, once for as long as the object exists."""

    index: GangIndex
    native: NativeGangs
    pod_groups: Store[PodGroupObject]
    writer: StatusWriter
    volcano: Configured
    _bypassed: set[str] = field(default_factory=set, init=False)
    _ignored: set[GangId] = field(default_factory=set, init=False)
    _ungrouped: set[GangId] = field(default_factory=set, init=False)

    def pods(self) -> Mapping[Key, GangPod]:
        """Return the existing pods that were created without our webhook."""
        native = self.native.bypassed(self.pod_groups.objects)
        return {**self.index.bypassed, **dict(native)}

    def report(self, now_s: float) -> int:
        """Write the Events that are due; return how many pods are new. `now_s` is Unix time."""
        there = {pod.metadata.uid: pod for pod in self.pods().values()}
        found = {pod.metadata.uid: pod for pod in self.index.take_bypassed()} | there
        came = found.keys() - self._bypassed
        for uid in came:
            self.writer.write_bypassed(found[uid], now_s)
        self._bypassed = set(there)
        self._report_ungrouped(now_s)
        why_ignored = self.volcano.ignored
        jobs = self.native.jobs() if why_ignored else {}
        for gang_id in jobs.keys() - self._ignored:
            self.writer.write_ignored(jobs[gang_id], why_ignored, now_s)
        self._ignored = set(jobs)
        return len(came)

    def _report_ungrouped(self, now_s: float) -> None:
        # The webhook could only warn the client that submitted the job, which may be a program.
        jobs = self.index.ungrouped()
        for job in jobs.keys() - self._ungrouped:
            self.writer.write_ungrouped(jobs[job], jobs[job].ungrouped or "", now_s)
        self._ungrouped = set(jobs)
