"""A master that is not running yet, put together once."""

import time
from collections.abc import Sequence

import prometheus_client as prom

from master.admission.admission import Admission, build_admission
from master.admission.tiers import KnownTiers
from master.booking.capacity_metrics import CapacityCollector
from master.booking.executors import SingleThreadExecutor
from master.booking.metrics import PlacementMetrics
from master.booking.placements import Placements
from master.cluster import Cluster, build_cluster, cluster_capacity, cluster_controllers
from master.composition import documents, state
from master.composition.tree import taking_up, tree_collector, tree_engine
from master.composition.workers import (
    known_callers,
    report_connections,
    worker_identities,
    worker_port,
)
from master.file_warnings import FileWarnings
from master.metrics import ConnectionsCollector, EngineMetrics, ServiceMetrics, new_registry
from master.replicas.leader_document import LeaderDocuments
from master.replicas.replicas import build_replicas
from master.role import ALONE, FOLLOWER, Replica, Role
from master.service import Service
from master.settings import MasterSettings
from master.sources.row import SourceRow
from master.sources.table import SOURCE_ROWS
from master.state.history_file import HistoryFile
from master.streams import Streams
from master.tree.engine import Clock
from master.tree.past import build_past
from master.tree.readiness import Readiness
from topo.discovery.sources import LISTED, Startup
from topo.kit.connections import Connections

PARTS = 64
"""Callers that may wait for a part of the topology; one takes up to 0.1 s at 10,000 nodes."""
GRAPHS = 8
"""Callers that may wait for a graph of the fabric; one takes about a second at 10,000 nodes."""


def build_service(
    settings: MasterSettings,
    role: Role = ALONE,
    source_rows: Sequence[SourceRow] = SOURCE_ROWS,
    clock: Clock = time.monotonic,
) -> Service:
    """A master that is not running yet. Reads the files of tokens; raises `BadInputError`.

    One that stands for election follows until it leads, whatever `role` is.
    """
    replica = Replica(FOLLOWER if settings.elects_leader else role)
    if settings.kube_config is not None:
        source_rows = (*source_rows, SourceRow(LISTED))
    sources = tuple(row.source for row in source_rows)
    registry = new_registry(settings.mode)
    engine_metrics, metrics = EngineMetrics(registry), ServiceMetrics(registry)
    engine = tree_engine(settings, sources, replica, metrics=engine_metrics, clock=clock)
    measured = PlacementMetrics(registry)
    placements = Placements(settings.policy, settings.hold_limits, measured, engine.clock)
    engine.on_published.append(placements.state.follow)
    engine.before_published.append(placements.state.follow_ahead)
    startup = Startup(began_s=engine.clock(), heard_s=settings.discovery.heard_s)
    readiness = Readiness(settings.mode, startup, sources)
    engine.on_advanced = lambda now_s: startup.reachable(now_s) if replica.role.acts else None
    cluster = build_cluster(settings, registry, clock)
    replicas = None
    if cluster is not None and settings.elects_leader:
        replicas = build_replicas(
            settings,
            cluster,
            replica,
            registry=registry,
            reports=metrics.reports,
            take_up=taking_up(engine, placements, replica, readiness),
            clock=clock,
        )
    file_warnings = FileWarnings()
    callers = known_callers(settings, file_warnings, registry, clock)
    saver = state.state_saver(
        state.state_store(settings, cluster, replica, metrics),
        settings.state_save_interval,
        engine=engine,
        readiness=readiness,
        placements=placements,
        metrics=metrics,
    )
    service = Service(
        settings=settings,
        registry=registry,
        metrics=metrics,
        engine_metrics=engine_metrics,
        engine=engine,
        past=build_past(
            engine,
            (settings.history_bytes, settings.history_age),
            registry,
            is_shown=lambda: not service.missing(),
            store=HistoryFile(settings.state_file) if settings.state_file is not None else None,
        ),
        node_group_document=documents.of_node_groups(engine, clock),
        topology_document=documents.of_topology(
            settings, engine, placements, lambda: service.warnings
        ),
        findings_document=documents.of_findings(settings, engine, lambda: service),
        plain_document=documents.of_plain_page(settings, engine, lambda: service),
        source_rows=source_rows,
        readiness=readiness,
        tokens=callers.workers,
        writers=callers.writers,
        clear_text=callers.clear_text,
        file_warnings=file_warnings,
        token_files=callers.files,
        worker_port=worker_port(
            settings,
            engine,
            startup,
            identities=worker_identities(settings, callers.workers, cluster),
            replica=replica,
            replicas=replicas,
            reports=metrics.reports,
        ),
        api_connections=Connections(
            "api",
            settings.connection_limit,
            settings.unread_limit,
            setting="--connection-limit",
        ),
        report_connections=report_connections(settings),
        streams=Streams(settings.event_stream_limit, metrics.event_streams),
        parts=SingleThreadExecutor(PARTS),
        graphs=SingleThreadExecutor(GRAPHS),
        saver=saver,
        state_copy=state.state_copy(settings, saver, replicas, file_warnings),
        placements=placements,
        booking_log=state.booking_log(settings, placements),
        replica=replica,
        replicas=replicas,
        documents=LeaderDocuments(engine, placements.state, settings.mode, clock),
        cluster=cluster,
        controllers=cluster_controllers(
            cluster,
            settings,
            engine,
            placements=placements,
            registry=registry,
            is_settled=lambda: service.may_publish,
            is_counted=lambda: service.may_publish and not service.uncounted(),
        ),
        cluster_capacity=cluster_capacity(cluster, placements.state),
        admission=_admission(
            settings,
            cluster,
            registry,
            replica=replica,
            tiers=KnownTiers(
                forest=lambda: None if service.uncounted() else engine.snapshot.forest,
                hosts=placements.state.capacity.hosts,
                clock=clock,
            ),
        ),
    )
    if (nomination := service.controllers.nomination) is not None:
        if service.admission is not None:
            nomination.volcano = service.admission.reader
        nomination.uncounted = service.uncounted
    registry.register(CapacityCollector(measured, placements.holds.booked, placements.totals))
    registry.register(tree_collector(service))
    registry.register(ConnectionsCollector(service.ports))
    return service


def _admission(
    settings: MasterSettings,
    cluster: Cluster | None,
    registry: prom.CollectorRegistry,
    *,
    replica: Replica,
    tiers: KnownTiers,
) -> Admission | None:
    if settings.placement == "off" or cluster is None:
        return None
    return build_admission(
        settings,
        cluster.client,
        registry,
        tiers=tiers,
        acts=lambda: replica.role.acts,
        clock=time.monotonic,
    )
