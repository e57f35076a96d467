"""The parts of a master that all others depend on: tree, bookings and role."""

from collections.abc import Sequence
from dataclasses import dataclass

import prometheus_client as prom

from master.availability import Availability
from master.booking.capacity_metrics import CapacityCollector
from master.booking.metrics import PlacementMetrics
from master.booking.placements import Placements
from master.cluster import Cluster
from master.file_warnings import FileWarnings
from master.metrics import EngineMetrics, ServiceMetrics, new_registry
from master.object_errors import ObjectErrors, ObjectKind
from master.replicas.replicas import Replicas
from master.role import FOLLOWER, Replica, Role
from master.settings import MasterSettings
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.row import SourceRow
from master.sources.workers.sweeps import Sweeps
from master.tree.engine import Clock, Engine
from topo.discovery.sources import LISTED, Readiness, Source, Startup
from topo.discovery.state import Discovery


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The owners of tree and bookings, and the metrics of all parts."""

    settings: MasterSettings
    source_rows: Sequence[SourceRow]
    clock: Clock
    registry: prom.CollectorRegistry
    metrics: ServiceMetrics
    engine_metrics: EngineMetrics
    replica: Replica
    engine: Engine
    placements: Placements
    readiness: Readiness
    sweeps: Sweeps
    file_warnings: FileWarnings
    object_errors: ObjectErrors


def build_core(
    settings: MasterSettings, role: Role, source_rows: Sequence[SourceRow], clock: Clock
) -> Core:
    """Return the core; the bookings follow the tree from its first forest on."""
    if settings.kube_config is not None:
        source_rows = (*source_rows, SourceRow(LISTED))
    sources = tuple(row.source for row in source_rows)
    replica = Replica(FOLLOWER if settings.elects_leader else role)
    registry = new_registry(settings.mode)
    object_errors = ObjectErrors(registry)
    engine_metrics, metrics = EngineMetrics(registry), ServiceMetrics(registry)
    engine = _engine(settings, sources, replica, metrics=engine_metrics, clock=clock)
    engine.errors = object_errors.scope(ObjectKind.REPORT, "report of")
    startup = Startup(began_s=engine.clock(), heard_s=settings.discovery.heard_s)
    engine.on_advanced = lambda now_s: startup.note_reachable(now_s) if replica.role.acts else None
    return Core(
        settings=settings,
        source_rows=source_rows,
        clock=clock,
        registry=registry,
        metrics=metrics,
        engine_metrics=engine_metrics,
        replica=replica,
        engine=engine,
        placements=_placements(settings, engine, registry),
        readiness=Readiness(settings.mode, startup, sources, settings.named_sources),
        sweeps=Sweeps(
            settings.fabric_sweep_nodes,
            beat_s=settings.beat_interval,
            stale_s=settings.discovery.stale_s,
            clock=engine.clock,
        ),
        file_warnings=FileWarnings(),
        object_errors=object_errors,
    )


def build_availability(
    core: Core, replicas: Replicas | None, cluster: Cluster | None, capacity: ClusterCapacity | None
) -> Availability:
    """Return what may be shown, published and handed out."""
    return Availability(
        engine=core.engine,
        readiness=core.readiness,
        replica=core.replica,
        replicas=replicas,
        cluster=cluster,
        capacity=capacity,
    )


def _engine(
    settings: MasterSettings,
    sources: Sequence[Source],
    replica: Replica,
    *,
    metrics: EngineMetrics,
    clock: Clock,
) -> Engine:
    """Return the owner of the tree; events feed it while this master acts."""
    engine = Engine(
        Discovery(settings.discovery, tuple(sources)),
        metrics,
        tick_s=min(1.0, settings.beat_interval / 4),
        standstill_s=settings.discovery.standstill_s,
        clock=clock,
    )
    engine.is_fed = lambda: replica.is_fed
    return engine


def _placements(
    settings: MasterSettings, engine: Engine, registry: prom.CollectorRegistry
) -> Placements:
    metrics = PlacementMetrics(registry)
    placements = Placements(settings.policy, settings.hold_limits, metrics, engine.clock)
    engine.on_published.append(placements.state.follow)
    engine.before_published.append(placements.state.follow_in_turns)
    registry.register(CapacityCollector(metrics, placements.holds.booked_gpus, placements.totals))
    return placements
