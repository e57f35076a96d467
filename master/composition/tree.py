"""History and metrics of the tree, and how a follower shows the tree of another master."""

from master.availability import Availability
from master.booking.placements import Placements
from master.cluster import Cluster
from master.composition.core import Core
from master.metrics import TreeCollector
from master.replicas.follower import TakeUp
from master.replicas.replicas import Replicas, build_replicas
from master.role import Replica
from master.service import Service
from master.state.history_file import HistoryFile
from master.tree.engine import Engine
from master.tree.past import Past, build_past
from topo.discovery.memory import Memory
from topo.discovery.sources import Readiness
from topo.model.forest import Forest
from topo.placement.booking.holds import FORMAT, HoldsMemory


def build_take_up(
    engine: Engine, placements: Placements, replica: Replica, readiness: Readiness
) -> TakeUp:
    """Return what shows the leader's state while this master follows."""

    async def take_up(memory: Memory, holds: HoldsMemory | None) -> None:
        await engine.replicate(memory)
        if not replica.is_fed:
            readiness.restored = engine.snapshot.forest != Forest()
            placements.state.replicate(holds or HoldsMemory(FORMAT, ()))

    return TakeUp(take_up, engine.replicate_sources)


def build_replicated(core: Core, cluster: Cluster | None) -> Replicas | None:
    """Return the parts of an election; None in a master that stands for none."""
    if cluster is None or not core.settings.elects_leader:
        return None
    return build_replicas(
        core.settings,
        cluster,
        core.replica,
        registry=core.registry,
        reports=core.metrics.reports,
        take_up=build_take_up(core.engine, core.placements, core.replica, core.readiness),
        clock=core.clock,
    )


def build_history(core: Core, availability: Availability) -> Past:
    """Return the kept moments, from the first that is shown on."""
    settings = core.settings
    return build_past(
        core.engine,
        (settings.history_bytes, settings.history_age),
        core.registry,
        is_shown=lambda: not availability.missing(),
        store=HistoryFile(settings.kept_file) if settings.kept_file is not None else None,
    )


def tree_collector(service: Service) -> TreeCollector:
    """Return the metrics of the tree."""
    engine = service.engine
    return TreeCollector(
        snapshot=lambda: engine.snapshot,
        clock=engine.clock,
        waiting=lambda: engine.waiting,
        workers=lambda: len(service.worker_port.sessions),
        ready=lambda: not service.availability.missing(),
        warnings=service.warnings.now,
        document_sizes=lambda: service.documents.node_group.sizes,
        by_group=service.settings.group_metrics,
    )
