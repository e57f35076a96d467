"""Builds a master that does not run yet; `master/app.py` starts and ends its parts."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from master.admission.admission import Admission
from master.authentication.port_tokens import PortTokens, read_port_tokens
from master.availability import Availability
from master.booking.ahead import AheadBudget
from master.cluster import Cluster
from master.composition import state
from master.composition.admission import admission_webhook
from master.composition.ahead import build_ahead
from master.composition.api_limits import api_limits
from master.composition.cluster import build_cluster, cluster_capacity
from master.composition.controllers import cluster_controllers
from master.composition.core import Core, build_availability, build_core
from master.composition.documents import build_documents
from master.composition.extender import build_extender
from master.composition.tree import build_history, build_replicated, tree_collector
from master.composition.wiring import build_wiring
from master.composition.workers import report_connections, worker_port
from master.controllers.table import Controllers
from master.current_topology import CurrentTopology
from master.extender.port import ExtenderPort
from master.kube.schedulers.volcano_config import NOT_READ
from master.master_warnings import MasterWarnings
from master.metrics import ConnectionsCollector
from master.replicas.replicas import Replicas
from master.role import ALONE, Role
from master.service import Service
from master.settings import MasterSettings
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.row import SourceRow
from master.sources.table import SOURCE_ROWS
from master.tree.engine import Clock
from master.wiring.check import WiringCheck
from topo.gangs.machine.gang import Gang


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts that see Kubernetes or other masters; those that this master lacks are None."""

    cluster: Cluster | None
    capacity: ClusterCapacity | None
    replicas: Replicas | None
    availability: Availability
    admission: Admission | None
    controllers: Controllers
    extender: ExtenderPort | None
    ahead: AheadBudget


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
    parts = _parts(core)
    past = build_history(core, parts.availability)
    saver = state.state_saver(core, parts.cluster)
    port_tokens = read_port_tokens(settings, core.file_warnings, core.registry, clock)
    wiring = build_wiring(core, parts.availability, parts.controllers, lambda: topology)
    warnings = _warnings(core, parts, port_tokens, wiring)
    topology = CurrentTopology(core.engine, core.placements, warnings.now)
    gangs = partial(_gangs, parts.controllers)
    service = Service(
        settings=settings,
        registry=core.registry,
        metrics=core.metrics,
        engine_metrics=core.engine_metrics,
        replica=core.replica,
        engine=core.engine,
        placements=core.placements,
        ahead=parts.ahead,
        readiness=core.readiness,
        source_rows=core.source_rows,
        file_warnings=core.file_warnings,
        object_errors=core.object_errors,
        replicas=parts.replicas,
        cluster=parts.cluster,
        cluster_capacity=parts.capacity,
        availability=parts.availability,
        past=past,
        saver=saver,
        state_copy=state.state_copy(core, saver, parts.replicas),
        booking_log=state.booking_log(core),
        controllers=parts.controllers,
        admission=parts.admission,
        extender=parts.extender,
        port_tokens=port_tokens,
        worker_port=worker_port(core, port_tokens.workers, parts.cluster, parts.replicas),
        sweeps=core.sweeps,
        report_connections=report_connections(),
        api_limits=api_limits(core.metrics),
        warnings=warnings,
        wiring=wiring,
        topology=topology,
        documents=build_documents(core, topology, parts.availability, gangs),
    )
    core.registry.register(tree_collector(service))
    core.registry.register(ConnectionsCollector(service.ports))
    return service


def _parts(core: Core) -> _Parts:
    """Return the parts that see Kubernetes or other masters; each uses those before it."""
    bookings = core.placements.state
    cluster = build_cluster(
        core.settings, core.registry, core.clock, room=bookings.room, errors=core.object_errors
    )
    capacity = cluster_capacity(cluster, bookings, core.object_errors)
    replicas = build_replicated(core, cluster)
    availability = build_availability(core, replicas, cluster, capacity)
    admission = admission_webhook(core, cluster, availability)
    volcano = admission.reader if admission is not None else NOT_READ
    ahead = build_ahead(core, cluster)
    return _Parts(
        cluster=cluster,
        capacity=capacity,
        replicas=replicas,
        availability=availability,
        admission=admission,
        controllers=cluster_controllers(
            core, cluster, availability, capacity, volcano=volcano, ahead=ahead
        ),
        extender=build_extender(
            core, cluster, capacity, availability, replicas=replicas, ahead=ahead
        ),
        ahead=ahead,
    )


def _warnings(
    core: Core, parts: _Parts, port_tokens: PortTokens, wiring: WiringCheck | None
) -> MasterWarnings:
    return MasterWarnings(
        settings=core.settings,
        cleartext=port_tokens.cleartext,
        files=core.file_warnings,
        objects=core.object_errors,
        cluster=parts.cluster,
        replicas=parts.replicas,
        admission=parts.admission,
        extender=parts.extender,
        controllers=parts.controllers,
        wiring=wiring,
        ahead=parts.ahead,
    )


def _gangs(controllers: Controllers) -> Iterable[Gang]:
    """Return the gangs that this master places; none where it places none."""
    nomination = controllers.nomination
    return nomination.view.known.values() if nomination is not None else ()
