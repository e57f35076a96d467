"""Events of Kubernetes about changes of links, groups and sources."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import prometheus_client as prom
import structlog

from master.kube.client import Caller
from master.kube.errors import KubeError
from master.kube.objects import (
    DEPLOYMENTS,
    EVENTS,
    NODES,
    PODS,
    NodeObject,
    object_path,
)
from master.kube.reading import read
from master.kube.store import Store
from master.kube.writing.writer import Settled, Writer
from master.kube.writing.writes import MANAGER_PREFIX, Apply, WriteTarget
from master.object_errors import ObjectErrors, ObjectKind
from topo.kit.metrics import counter, gauge
from topo.model.forest import Snapshot
from topo.publish.event_series import EventRecord, EventSeries, Regarding, Reporter
from topo.publish.node_events import NodeEventTracker, Occurrence

MANAGER = f"{MANAGER_PREFIX}events"
PRODUCT = "topo-master"
POLL_S = 1.0
AT_ONCE = 20
"""Events a second at most: a fifth of what may be asked of the API server. Labels come first."""
_POD_OF_DEPLOYMENT = re.compile(
    "(?P<deployment>.+)-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}"
)
"""A pod's name is that of its Deployment, the hash of its template and five random characters, both
in the alphabet that Kubernetes generates names from."""
MOST_UNWRITTEN = 100
"""While this many wait for the API server, new occurrences are counted in the waiting series."""

_log = structlog.get_logger(__name__)


class EventMetrics:
    """Metrics of Events written and waiting."""

    def __init__(self, registry: prom.CollectorRegistry, series: EventSeries) -> None:
        self.occurrences = counter(registry, "topo_master_kube_event_occurrences")
        gauge(registry, "topo_master_kube_events_waiting", lambda: series.waiting)
        self._dropped = counter(registry, "topo_master_kube_events_dropped")
        self._series = series

    def count_dropped(self) -> None:
        """Add the series that were dropped since the last call."""
        self._dropped.inc(self._series.dropped)
        self._series.dropped = 0


@dataclass(kw_only=True)
class EventController:
    """Compares the forest once a second and writes Events of changes while this master leads.

    Conditions that existed before it started are not reported. `about_service` is called once for
    the object that Events of sources refer to; without one they appear in the log only.
    """

    nodes: Store[NodeObject]
    writer: Writer
    snapshot: Callable[[], Snapshot]
    is_settled: Callable[[], bool]
    reporter: Reporter
    about_service: Callable[[], Awaitable[Regarding | None]]
    registry: prom.CollectorRegistry
    now: Callable[[], float] = time.time
    """Unix time, which Events carry."""
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    """Takes the objects whose comparison raised an error."""
    _tracker: NodeEventTracker = field(default_factory=NodeEventTracker)
    _unwritten: set[WriteTarget] = field(default_factory=set)
    _service: Regarding | None = None

    def __post_init__(self) -> None:
        self._series = EventSeries(self.reporter)
        self._errors = self.errors.scope(ObjectKind.WRITE, "Events about")
        self._metrics = EventMetrics(self.registry, self._series)
        self.writer.listen(MANAGER, self._settled)

    def on_forest(self, _snapshot: Snapshot) -> None:
        """Do nothing: the next poll sees it; what comes and goes within a second is
        not reported.
        """

    async def run(self) -> None:
        """Report until cancelled."""
        while not self.is_settled():  # noqa: ASYNC110 - that it has settled is no event
            await asyncio.sleep(POLL_S)
        self._service = await self.about_service()
        while True:
            self._tell(self.now())
            await asyncio.sleep(POLL_S)

    def _tell(self, now_s: float) -> None:
        for occurrence in self._tracker.advance(self.snapshot()):
            name = occurrence.node or "this service"
            self._errors.run(name, partial(self._note, occurrence, now_s))
        self._metrics.count_dropped()
        room = min(AT_ONCE, MOST_UNWRITTEN - len(self._unwritten))
        for told in self._series.due(now_s, room):
            self._write(told)

    def _note(self, occurrence: Occurrence, now_s: float) -> None:
        about = self._regarding(occurrence)
        if about is not None:
            self._metrics.occurrences.labels(occurrence.reason).inc()
            self._series.add(about, occurrence.content, now_s)

    def _regarding(self, occurrence: Occurrence) -> Regarding | None:
        """Return the object of an occurrence, None where the cluster has none."""
        if occurrence.node is None:
            return self._service
        node = self.nodes.objects.get(("", occurrence.node))
        if node is None:
            return None
        return Regarding(NODES.api_version, NODES.kind, occurrence.node, node.metadata.uid)

    def _write(self, told: EventRecord) -> None:
        target = WriteTarget(EVENTS, told.name, told.namespace)
        self._unwritten.add(target)
        self.writer.put(Apply(target=target, manager=MANAGER, uid="", fields=told.fields))

    def _settled(self, settled: Settled) -> None:
        self._unwritten.discard(settled.write.target)


async def service_object(client: Caller, namespace: str, pod: str) -> Regarding | None:
    """Return the object of Events about sources: the pod's Deployment, else the pod, else None.

    Without the object's uid the Event is listed all the same, but not by `kubectl describe`.
    """
    if not namespace or not pod:
        return None
    match = _POD_OF_DEPLOYMENT.fullmatch(pod)
    if match is None:
        return Regarding(PODS.api_version, PODS.kind, pod, "", namespace)
    deployment = match["deployment"]
    about = Regarding(DEPLOYMENTS.api_version, DEPLOYMENTS.kind, deployment, "", namespace)
    path = object_path(DEPLOYMENTS, deployment, namespace)
    try:
        found = await read(client, DEPLOYMENTS, deployment, namespace)
    except KubeError as error:
        _log.warning("the Deployment of this master cannot be read", path=path, why=str(error))
        return about
    return about._replace(uid=found.metadata.uid)
