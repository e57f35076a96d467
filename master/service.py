"""What the parts of one master share; `master/composition` puts it together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import prometheus_client as prom
from aiohttp import web

from master.admission.admission import Admission
from master.booking.booking_log import BookingLog
from master.booking.executors import SingleThreadExecutor
from master.booking.placements import Placements
from master.clear_text import ClearText
from master.cluster import Cluster
from master.controllers.table import Controllers
from master.file_warnings import FileWarnings
from master.metrics import (
    EngineMetrics,
    ServiceMetrics,
)
from master.replicas.leader_document import LeaderDocuments
from master.replicas.replicas import Replicas
from master.replicas.state_copy import StateCopy
from master.role import Replica, Role
from master.settings import MasterSettings
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.row import SourceRow
from master.sources.workers.port import WorkerPort
from master.state.saving import StateSaver
from master.streams import Streams
from master.tokens import TokenFile, TokenFileKind, Tokens
from master.tree import topology_document
from master.tree.document_cache import DocumentCache
from master.tree.engine import Engine
from master.tree.findings import Examined
from master.tree.past import Past
from master.tree.readiness import Readiness
from master.tree.topology_document import TopologyView
from topo.kit.connections import Connections
from topo.model.forest import Forest
from topo.model.rest.topology import WarningDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One master: its settings, its engine, and what hangs on them."""

    settings: MasterSettings
    registry: prom.CollectorRegistry
    metrics: ServiceMetrics
    engine_metrics: EngineMetrics
    engine: Engine
    past: Past
    node_group_document: DocumentCache[Forest]
    topology_document: DocumentCache[TopologyView]
    findings_document: DocumentCache[Examined]
    plain_document: DocumentCache[Examined]
    source_rows: Sequence[SourceRow]
    readiness: Readiness
    tokens: Tokens
    writers: Tokens
    clear_text: ClearText
    file_warnings: FileWarnings
    token_files: Mapping[TokenFileKind, TokenFile]
    worker_port: WorkerPort
    api_connections: Connections
    report_connections: Connections
    streams: Streams
    parts: SingleThreadExecutor
    graphs: SingleThreadExecutor
    saver: StateSaver | None
    state_copy: StateCopy | None
    placements: Placements
    booking_log: BookingLog | None
    replica: Replica
    replicas: Replicas | None
    """None in a master that stands for no election."""
    documents: LeaderDocuments
    cluster: Cluster | None
    """None without Kubernetes."""
    controllers: Controllers
    cluster_capacity: ClusterCapacity | None
    """None without Kubernetes."""
    admission: Admission | None
    """None where nothing is done for jobs that ask for groups."""

    @property
    def ports(self) -> tuple[Connections, ...]:
        """The connections of each port."""
        ports = self.api_connections, self.report_connections
        return ports if self.admission is None else (*ports, self.admission.connections)

    @property
    def role(self) -> Role:
        """Which role this master has now."""
        return self.replica.role

    def view(self) -> TopologyView:
        """The forest now, what is booked on its nodes, and since when they are as they are."""
        return view_of(self.engine, self.placements, self.warnings)

    def version(self) -> object:
        """What tells the documents of `view` from others; O(1)."""
        capacity = self.placements.state.capacity
        return topology_document.version(self.engine.snapshot, capacity.version, self.warnings)

    @property
    def warnings(self) -> tuple[WarningDocument, ...]:
        """What is wrong with how this master is run."""
        of_cluster = self.cluster.warnings if self.cluster is not None else ()
        of_replicas = self.replicas.warnings if self.replicas is not None else ()
        of_us = (*self.clear_text.warnings, *self.file_warnings.warnings)
        of_webhook = self._warnings_of_webhook()
        return (*of_us, *of_cluster, *of_replicas, *of_webhook, *self.controllers.warnings)

    def _warnings_of_webhook(self) -> tuple[WarningDocument, ...]:
        if self.admission is None:
            return ()
        nomination = self.controllers.nomination
        is_used = self.settings.placement == "native" or (nomination and nomination.has_native)
        reader = self.admission.reader
        of_volcano = reader.warnings if is_used else ()
        over = reader.preemption_warnings if self.settings.preempt_after else ()
        if of_volcano and over:
            of_volcano, over = reader.joint_warnings, ()
        return (*self.admission.keeper.warnings, *of_volcano, *over)

    def missing(self) -> tuple[str, ...]:
        """Why the tree is not shown yet; empty when it is."""
        now_s = self.engine.clock()
        if self.role.acts:
            self.readiness.startup.reachable(now_s)
        found = self.readiness.missing(self.engine.snapshot, now_s)
        return (self.stands_by,) if found and self.stands_by else found

    @property
    def may_publish(self) -> bool:
        """Whether the tree is known well enough to be written where others read it."""
        return not (self.missing() or self.readiness.untried(self.engine.snapshot))

    def uncounted(self) -> tuple[str, ...]:
        """Why no GPUs are handed out yet: no tree, or pods that hold some are not counted."""
        capacity = self.cluster_capacity
        if capacity is None or capacity.settled.is_set():
            return self.missing()
        return (*self.missing(), "the nodes and pods of Kubernetes are not counted yet")

    def unready(self) -> tuple[str, ...]:
        """Why this master should not be asked yet: no tree to show, or too little of its cluster.

        Once it was ready it stays so: nothing outside this process is asked for this.
        """
        of_cluster = self.cluster.missing() if self.cluster is not None else ()
        if self.replicas is not None and self.replicas.shows_copy:
            of_cluster = ()  # nobody can be asked; what is known of it is in the copy
        return of_cluster if self.stands_by else (*self.missing(), *of_cluster)

    @property
    def stands_by(self) -> str:
        """Why this master follows with nothing to show and is to lead next; empty where not so."""
        return self.replicas.stands_by if self.replicas is not None else ""


SERVICE = web.AppKey("service", Service)


def view_of(
    engine: Engine, placements: Placements, warnings: tuple[WarningDocument, ...]
) -> TopologyView:
    """The forest now, what is booked on its nodes, and since when they are as they are."""
    times = engine.status_times.copy()
    return TopologyView(engine.snapshot, placements.state.usage(), times, warnings)
