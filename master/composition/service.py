"""Builds a master that does not run yet; `master/app.py` starts and ends its parts."""

import time
from collections.abc import Iterable, Sequence
from functools import partial

from master.authentication.port_tokens import read_port_tokens
from master.cluster import build_cluster, cluster_capacity
from master.composition import kubernetes, state
from master.composition.api_limits import api_limits
from master.composition.core import build_availability, build_core
from master.composition.documents import build_documents
from master.composition.extender import build_extender
from master.composition.tree import build_history, build_replicated, tree_collector
from master.composition.wiring import build_wiring
from master.composition.workers import report_connections, worker_port
from master.controllers.table import Controllers
from master.current_topology import CurrentTopology
from master.master_warnings import MasterWarnings
from master.metrics import ConnectionsCollector
from master.role import ALONE, Role
from master.service import Service
from master.settings import MasterSettings
from master.sources.row import SourceRow
from master.sources.table import SOURCE_ROWS
from master.tree.engine import Clock
from topo.gangs.machine.gang import Gang


def build_service(
    settings: MasterSettings,
    role: Role = ALONE,
    source_rows: Sequence[SourceRow] = SOURCE_ROWS,
    clock: Clock = time.monotonic,
) -> Service:
    """Return all parts of a master. Reads the files of tokens.

    A master that stands for election follows until it leads, whatever `role` is. Raises
    `BadInputError`.
    """
    core = build_core(settings, role, source_rows, clock)
    cluster = build_cluster(settings, core.registry, clock, core.placements.state.room)
    capacity = cluster_capacity(cluster, core.placements.state)
    replicas = build_replicated(core, cluster)
    availability = build_availability(core, replicas, cluster, capacity)
    past = build_history(core, availability)
    saver = state.state_saver(core, cluster)
    admission = kubernetes.admission(core, cluster, availability)
    controllers = kubernetes.controllers(core, cluster, availability, admission, capacity=capacity)
    extender = build_extender(core, cluster, capacity, availability, replicas=replicas)
    port_tokens = read_port_tokens(settings, core.file_warnings, core.registry, clock)
    wiring = build_wiring(core, availability, controllers, lambda: topology)
    warnings = MasterWarnings(
        settings=settings,
        cleartext=port_tokens.cleartext,
        files=core.file_warnings,
        cluster=cluster,
        replicas=replicas,
        admission=admission,
        extender=extender,
        controllers=controllers,
        wiring=wiring,
    )
    topology = CurrentTopology(core.engine, core.placements, warnings.now)
    service = Service(
        settings=settings,
        registry=core.registry,
        metrics=core.metrics,
        engine_metrics=core.engine_metrics,
        replica=core.replica,
        engine=core.engine,
        placements=core.placements,
        readiness=core.readiness,
        source_rows=core.source_rows,
        file_warnings=core.file_warnings,
        replicas=replicas,
        cluster=cluster,
        cluster_capacity=capacity,
        availability=availability,
        past=past,
        saver=saver,
        state_copy=state.state_copy(core, saver, replicas),
        booking_log=state.booking_log(core),
        controllers=controllers,
        admission=admission,
        extender=extender,
        port_tokens=port_tokens,
        worker_port=worker_port(core, port_tokens.workers, cluster, replicas),
        report_connections=report_connections(),
        api_limits=api_limits(core.metrics),
        warnings=warnings,
        wiring=wiring,
        topology=topology,
        documents=build_documents(core, topology, availability, partial(_gangs, controllers)),
    )
    core.registry.register(tree_collector(service))
    core.registry.register(ConnectionsCollector(service.ports))
    return service


def _gangs(controllers: Controllers) -> Iterable[Gang]:
    """Return the gangs that this master places; none where it places none."""
    nomination = controllers.nomination
    return nomination.view.known.values() if nomination is not None else ()
