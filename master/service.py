"""The parts of one master that others use; `master/composition` builds them."""

from collections.abc import Sequence
from dataclasses import dataclass

import prometheus_client as prom
from aiohttp import web

from master.admission.admission import Admission
from master.authentication.port_tokens import PortTokens
from master.availability import Availability
from master.booking.ahead import AheadBudget
from master.booking.booking_log import BookingLog
from master.booking.placements import Placements
from master.cluster import Cluster
from master.controllers.table import Controllers
from master.current_topology import CurrentTopology
from master.extender.port import ExtenderPort
from master.file_warnings import FileWarnings
from master.master_warnings import MasterWarnings
from master.metrics import EngineMetrics, ServiceMetrics
from master.object_errors import ObjectErrors
from master.replicas.leader_document import LeaderDocuments
from master.replicas.replicas import Replicas
from master.replicas.state_copy import StateCopy
from master.role import Replica
from master.settings import MasterSettings
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.row import SourceRow
from master.sources.workers.port import WorkerPort
from master.sources.workers.sweeps import Sweeps
from master.state.saving import StateSaver
from master.streams import Streams
from master.tree.document_cache import DocumentCache
from master.tree.engine import Engine
from master.tree.findings import Examined
from master.tree.past import Past
from master.tree.topology_document import TopologyView
from master.wiring.check import WiringCheck
from topo.discovery.sources import Readiness
from topo.kit.executors import SharedExecutor, SingleThreadExecutor
from topo.kit.serving.body_reader import BodyReader
from topo.kit.serving.connections import Connections
from topo.model.forest import Forest


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """The vendor's document, the whole tree, the findings, and the page without scripts.

    `of_leader` is the document for followers.
    """

    node_group: DocumentCache[Forest]
    topology: DocumentCache[TopologyView]
    findings: DocumentCache[Examined]
    plain: DocumentCache[Examined]
    of_leader: LeaderDocuments


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiLimits:
    """Limits of the API: connections, bodies, streams, parts of trees, graphs."""

    connections: Connections
    bodies: BodyReader
    streams: Streams
    parts: SingleThreadExecutor
    graphs: SharedExecutor[bytes | web.Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """All parts of one master.

    Parts that a master lacks are None: `replicas` without an election, `cluster` and its capacity
    without Kubernetes, `admission` where jobs with groups are not handled, `extender` where
    schedulers ask nothing, `wiring` without a plan of cables.
    """

    settings: MasterSettings
    registry: prom.CollectorRegistry
    metrics: ServiceMetrics
    engine_metrics: EngineMetrics
    replica: Replica
    engine: Engine
    placements: Placements
    ahead: AheadBudget
    readiness: Readiness
    source_rows: Sequence[SourceRow]
    file_warnings: FileWarnings
    object_errors: ObjectErrors
    replicas: Replicas | None
    cluster: Cluster | None
    cluster_capacity: ClusterCapacity | None
    availability: Availability
    past: Past
    saver: StateSaver | None
    state_copy: StateCopy | None
    booking_log: BookingLog | None
    controllers: Controllers
    admission: Admission | None
    extender: ExtenderPort | None
    port_tokens: PortTokens
    worker_port: WorkerPort
    sweeps: Sweeps
    report_connections: Connections
    api_limits: ApiLimits
    warnings: MasterWarnings
    wiring: WiringCheck | None
    topology: CurrentTopology
    documents: Documents

    @property
    def ports(self) -> tuple[Connections, ...]:
        """The connections of each port."""
        further = (self.admission, self.extender)
        return (
            self.api_limits.connections,
            self.report_connections,
            *(port.connections for port in further if port is not None),
        )


SERVICE = web.AppKey("service", Service)
