"""Opens the gates of pods if no master has placed gangs for a long time.

Masters may run although none of them places gangs: the lease cannot be written, or the leader never
got its tree or its cluster. Then every replica opens gates. That is safe: two replicas write the
same, and each write names the version of its pod. Time in which this master cannot reach the API
server does not count, because after an outage a master leads within seconds. If no master runs, no
gate is opened.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import prometheus_client as prom
import structlog

from master.controllers.nomination.status.status_writer import StatusWriter
from master.controllers.nomination.writing import gang_writes
from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.store import Store
from master.kube.writing.writer import Writer
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.gang import GangId, Member, PodUid
from topo.gangs.machine.instructions import OpenUnplanned
from topo.gangs.status import GangStatus
from topo.kit.metrics import gauge
from topo.model.conditions.gang_states import GangState

LOOK_S = 1.0

_log = structlog.get_logger(__name__)


@dataclass(kw_only=True)
class GateTimeout:
    """Counts the time without a master that places gangs, and opens their gates after `limit_s`.

    `is_attended`: a master places gangs, as far as this one knows. `is_heard`: this master gets
    answers from the API server.
    """

    limit_s: float
    is_attended: Callable[[], bool]
    is_heard: Callable[[], bool]
    pods: Store[ClusterPod]
    writer: Writer
    status_writer: StatusWriter
    keys: AnnotationKeys
    registry: prom.CollectorRegistry
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._since_s = 0.0
        self._reported: set[GangId] = set()
        gauge(self.registry, "topo_master_gangs_unattended_seconds", lambda: self._since_s)

    @property
    def is_over(self) -> bool:
        """Whether no master has placed gangs for so long that gates have to be opened."""
        return 0.0 < self.limit_s <= self._since_s

    async def run(self) -> None:
        """Check every `LOOK_S` until cancelled."""
        looked_s = self.clock()
        while True:
            await asyncio.sleep(LOOK_S)
            now_s = self.clock()
            self._look(min(now_s - looked_s, 2 * LOOK_S))  # a process that stood still saw nothing
            looked_s = now_s

    def _look(self, passed_s: float) -> None:
        if self.is_attended():
            self._since_s = 0.0
            self._reported.clear()
            return
        was_over = self.is_over
        self._since_s += passed_s if self.is_heard() else 0.0
        if not self.is_over:
            return
        why = f"no master has placed gangs for {self.limit_s:g} s (--gate-timeout)"
        if not was_over:
            fix = "topo doctor says why; GET /ready of the leader does, too"
            _log.warning("gates are opened without a plan", why=why, fix=fix)
        self._open_gates(why)

    def _open_gates(self, why: str) -> None:
        """Request that every gate is opened; a pending write is not repeated."""
        pods = self.pods.objects.values()
        gated = [pod for pod in pods if isinstance(pod, GangPod) and pod.gated]
        for pod in sorted(gated, key=lambda pod: pod.rank):
            gang_id, metadata = pod.gang_id, pod.metadata
            member = Member(
                uid=PodUid(metadata.uid),
                name=metadata.name,
                rank=pod.rank,
                version=metadata.resource_version,
            )
            asked = OpenUnplanned(gang_id, member, why)
            self.writer.put(gang_writes.pod_patch(asked, metadata.namespace, self.keys))
            if gang_id not in self._reported:
                self._reported.add(gang_id)
                status = GangStatus(state=GangState.WAIVED, text=why)
                self.status_writer.write(pod, status, self.now(), self.now())
        self.status_writer.flush(self.now())
