"""What the parts of the master share, put together once; nothing here does I/O."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import prometheus_client as prom
from aiohttp import web

from master.admission.admission import Admission, build_admission
from master.admission.tiers import KnownTiers
from master.booking.booking_log import BookingLog
from master.booking.capacity_metrics import CapacityCollector
from master.booking.executors import SingleThreadExecutor
from master.booking.metrics import PlacementMetrics
from master.booking.placements import Placements
from master.clear_text import API_TOKEN, WORKER_TOKEN, ClearText
from master.cluster import Cluster, build_cluster, cluster_capacity, cluster_controllers
from master.controllers.table import Controllers
from master.file_warnings import FileWarnings
from master.metrics import (
    ConnectionsCollector,
    EngineMetrics,
    ServiceMetrics,
    TreeCollector,
    new_registry,
)
from master.replicas.follower import TakeUp
from master.replicas.leader_document import LeaderDocuments
from master.replicas.replicas import Replicas, build_replicas
from master.replicas.state_copy import StateCopy
from master.role import ALONE, FOLLOWER, Replica, Role
from master.settings import MasterSettings
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.row import SourceRow
from master.sources.table import SOURCE_ROWS
from master.sources.workers.identity import WorkerAccounts, WorkerIdentities
from master.sources.workers.port import WorkerPort
from master.sources.workers.refused import RefusedReports
from master.sources.workers.sessions import Sessions
from master.state.config_maps import ConfigMapStore
from master.state.history_file import HistoryFile
from master.state.saving import StateSaver, StateStore
from master.state.state_file import StateFileStore
from master.streams import Streams
from master.tokens import API_TOKENS, WORKER_TOKENS, TokenFile, TokenFileKind, TokenMetrics, Tokens
from master.tree import findings, topology_document
from master.tree.document_cache import DocumentCache
from master.tree.engine import Clock, Engine
from master.tree.findings import Examined
from master.tree.past import Past, build_past
from master.tree.readiness import Readiness
from master.tree.topology_document import TopologyView
from master.web import plain
from master.web.files import page
from topo.discovery.memory import Memory
from topo.discovery.sources import LISTED, Startup
from topo.discovery.state import Discovery
from topo.kit.addresses import networks
from topo.kit.connections import Connections
from topo.model.forest import Forest
from topo.model.rest.topology import WarningDocument
from topo.placement.booking.holds import FORMAT, HoldsMemory
from topo.publish.nodegroup import render

CONNECTIONS_PER_NODE = 2
"""A worker has one; one that it lost without an end is held beside the new one for a while."""
REPORT_ANSWERS_BYTES = 16 * 1024 * 1024
"""Answers to reports that workers have not taken; each has about 60 bytes."""
PARTS = 64
"""Callers that may wait for a part of the topology; one takes up to 0.1 s at 10,000 nodes."""
GRAPHS = 8
"""Callers that may wait for a graph of the fabric; one takes about a second at 10,000 nodes."""


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
        return _view(self.engine, self.placements, self.warnings)

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
    engine = Engine(
        Discovery(settings.discovery, sources),
        engine_metrics,
        queue_limit=settings.queue_limit,
        history_limit=settings.history_limit,
        tick_s=min(1.0, settings.beat_interval / 4),
        standstill_s=settings.discovery.standstill_s,
        clock=clock,
    )
    engine.is_fed = lambda: replica.is_fed
    measured = PlacementMetrics(registry)
    placements = Placements(settings.policy, settings.hold_limits, measured, engine.clock)
    booking_log = _booking_log(settings, placements)
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
    clear_text = ClearText(networks(settings.tls_proxies))
    clear_text.judge_manager(settings)
    file_warnings = FileWarnings()
    token_files = _token_files(settings, file_warnings, TokenMetrics(registry), clock)
    anybody = Tokens(anonymous=settings.allow_anonymous_workers)
    tokens = token_files[WORKER_TOKENS].tokens if WORKER_TOKENS in token_files else anybody
    writers = token_files[API_TOKENS].tokens if API_TOKENS in token_files else Tokens()
    tokens.accepted = clear_text.accepting(WORKER_TOKEN)
    writers.accepted = clear_text.accepting(API_TOKEN)
    saver = _saver(
        _store(settings, cluster, replica),
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
        node_group_document=DocumentCache(
            lambda: engine.snapshot.forest,
            render,
            lambda: engine.snapshot.generation,
            clock=clock,
        ),
        topology_document=_topology_document(
            settings, engine, placements, lambda: service.warnings
        ),
        findings_document=_examined_document(
            engine,
            lambda: service,
            lambda examined: findings.body(
                examined, settings.mode.value, engine.clock(), engine.history.run_id
            ),
        ),
        plain_document=_examined_document(
            engine,
            lambda: service,
            lambda examined: plain.body(
                examined, settings.mode.value, engine.clock(), page().release
            ),
        ),
        source_rows=source_rows,
        readiness=readiness,
        tokens=tokens,
        writers=writers,
        clear_text=clear_text,
        file_warnings=file_warnings,
        token_files=token_files,
        worker_port=WorkerPort(
            identities=WorkerIdentities(tokens, _worker_accounts(settings, cluster)),
            sessions=_sessions(settings, engine, startup),
            refused=RefusedReports(engine.submit),
            clock=engine.clock,
            reports=metrics.reports,
            api=f"port {settings.server_port or 'that the log names'} of this master",
            role=lambda: replica.role,
            forward=replicas.forwarder.forward if replicas is not None else None,
        ),
        api_connections=Connections(
            "api",
            settings.connection_limit,
            settings.unread_limit,
            setting="--connection-limit",
        ),
        report_connections=Connections(
            "reports",
            CONNECTIONS_PER_NODE * settings.max_nodes,
            REPORT_ANSWERS_BYTES,
            setting="--max-nodes",
        ),
        streams=Streams(settings.event_stream_limit, metrics.event_streams),
        parts=SingleThreadExecutor(PARTS),
        graphs=SingleThreadExecutor(GRAPHS),
        saver=saver,
        state_copy=_state_copy(settings, saver, replicas, file_warnings),
        placements=placements,
        booking_log=booking_log,
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
    registry.register(_tree_collector(service))
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


def _booking_log(settings: MasterSettings, placements: Placements) -> BookingLog | None:
    if settings.booking_log is None:
        return None
    log = BookingLog(settings.booking_log, placements.state.header)
    placements.state.record = log.record
    return log


def _token_files(
    settings: MasterSettings, warnings: FileWarnings, metrics: TokenMetrics, clock: Clock
) -> Mapping[TokenFileKind, TokenFile]:
    paths = {WORKER_TOKENS: settings.worker_token_file, API_TOKENS: settings.api_token_file}
    return {
        kind: TokenFile(path, kind, warnings=warnings, metrics=metrics, clock=clock)
        for kind, path in paths.items()
        if path is not None
    }


def _view(
    engine: Engine, placements: Placements, warnings: tuple[WarningDocument, ...]
) -> TopologyView:
    times = engine.status_times.copy()
    return TopologyView(engine.snapshot, placements.state.usage(), times, warnings)


def _topology_document(
    settings: MasterSettings,
    engine: Engine,
    placements: Placements,
    warnings: Callable[[], tuple[WarningDocument, ...]],
) -> DocumentCache[TopologyView]:
    def whole(view: TopologyView) -> bytes:
        return topology_document.body(
            view, settings.mode.value, engine.clock(), engine.history.run_id
        )

    capacity = placements.state.capacity
    return DocumentCache(
        lambda: _view(engine, placements, warnings()),
        whole,
        lambda: topology_document.version(engine.snapshot, capacity.version, warnings()),
        fresh_s=topology_document.FRESH_S,
        clock=engine.clock,
    )


def _examined_document(
    engine: Engine, service: Callable[[], Service], body: Callable[[Examined], bytes]
) -> DocumentCache[Examined]:
    return DocumentCache(
        lambda: Examined(service().view(), service().unready()),
        body,
        lambda: (service().version(), service().unready()),
        fresh_s=topology_document.FRESH_S,
        clock=engine.clock,
    )


def _worker_accounts(settings: MasterSettings, cluster: Cluster | None) -> WorkerAccounts | None:
    wanted = settings.worker_account
    return WorkerAccounts(cluster.reviews, wanted) if cluster is not None and wanted else None


def _sessions(settings: MasterSettings, engine: Engine, startup: Startup) -> Sessions:
    return Sessions(
        submit=engine.submit,
        rate=settings.worker_rate_limit,
        beat_s=settings.beat_interval,
        stale_s=settings.discovery.stale_s,
        forget_s=settings.discovery.forget_s,
        max_nodes=settings.max_nodes,
        known=engine.knows,
        on_node=startup.node_reported,
        on_resumed=startup.worker_resumed,
    )


def _store(
    settings: MasterSettings, cluster: Cluster | None, replica: Replica
) -> StateStore | None:
    if settings.state_file is not None:
        return StateFileStore(settings.state_file)
    if not settings.state_config_maps or cluster is None:
        return None
    return ConfigMapStore(
        cluster.client,
        settings.pod_namespace,
        settings.domain,
        may_write=lambda: replica.role.acts,
    )


def _saver(
    store: StateStore | None,
    interval_s: float,
    *,
    engine: Engine,
    readiness: Readiness,
    placements: Placements,
    metrics: ServiceMetrics,
) -> StateSaver | None:
    if store is None:
        return None
    return StateSaver(
        store=store,
        interval_s=interval_s,
        engine=engine,
        readiness=readiness,
        bookings=placements.state,
        metrics=metrics,
        clock=engine.clock,
    )


def _state_copy(
    settings: MasterSettings,
    saver: StateSaver | None,
    replicas: Replicas | None,
    warnings: FileWarnings,
) -> StateCopy | None:
    if settings.state_copy_file is None or saver is None or replicas is None:
        return None
    return StateCopy(
        settings.state_copy_file,
        saver,
        follower=replicas.follower,
        replica=replicas.replica,
        warnings=warnings,
    )


def taking_up(
    engine: Engine, placements: Placements, replica: Replica, readiness: Readiness
) -> TakeUp:
    """What shows what the leader knows, while this master follows."""

    async def take_up(memory: Memory, holds: HoldsMemory | None) -> None:
        await engine.replicate(memory)
        if not replica.is_fed:
            readiness.restored = engine.snapshot.forest != Forest()
            placements.state.replicate(holds or HoldsMemory(FORMAT, ()))

    return TakeUp(take_up, engine.replicate_sources)


def _tree_collector(service: Service) -> TreeCollector:
    engine = service.engine
    return TreeCollector(
        snapshot=lambda: engine.snapshot,
        clock=engine.clock,
        waiting=lambda: engine.waiting,
        workers=lambda: len(service.worker_port.sessions),
        ready=lambda: not service.missing(),
        warnings=lambda: service.warnings,
        document_sizes=lambda: service.node_group_document.sizes,
        by_group=service.settings.group_metrics,
    )
