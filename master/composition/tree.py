"""What owns the tree, and how a follower shows another master's."""

from collections.abc import Iterable

from master.booking.placements import Placements
from master.metrics import EngineMetrics, TreeCollector
from master.replicas.follower import TakeUp
from master.role import Replica
from master.service import Service
from master.settings import MasterSettings
from master.tree.engine import Clock, Engine
from master.tree.readiness import Readiness
from topo.discovery.memory import Memory
from topo.discovery.sources import Source
from topo.discovery.state import Discovery
from topo.model.forest import Forest
from topo.placement.booking.holds import FORMAT, HoldsMemory


def tree_engine(
    settings: MasterSettings,
    sources: Iterable[Source],
    replica: Replica,
    *,
    metrics: EngineMetrics,
    clock: Clock,
) -> Engine:
    """The owner of what is known; events feed it while this master acts."""
    engine = Engine(
        Discovery(settings.discovery, tuple(sources)),
        metrics,
        queue_limit=settings.queue_limit,
        history_limit=settings.history_limit,
        tick_s=min(1.0, settings.beat_interval / 4),
        standstill_s=settings.discovery.standstill_s,
        clock=clock,
    )
    engine.is_fed = lambda: replica.is_fed
    return engine


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


def tree_collector(service: Service) -> TreeCollector:
    """What the metrics say of the tree."""
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
