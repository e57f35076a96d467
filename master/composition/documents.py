"""The documents that many ask for at once, each made once for all."""

from collections.abc import Callable

from master.booking.placements import Placements
from master.service import Service, view_of
from master.settings import MasterSettings
from master.tree import findings, topology_document
from master.tree.document_cache import DocumentCache
from master.tree.engine import Clock, Engine
from master.tree.findings import Examined
from master.tree.topology_document import TopologyView
from master.web import plain
from master.web.files import page
from topo.model.forest import Forest
from topo.model.rest.topology import WarningDocument
from topo.publish.nodegroup import render


def of_node_groups(engine: Engine, clock: Clock) -> DocumentCache[Forest]:
    """The vendor's document."""
    return DocumentCache(
        lambda: engine.snapshot.forest,
        render,
        lambda: engine.snapshot.generation,
        clock=clock,
    )


def of_topology(
    settings: MasterSettings,
    engine: Engine,
    placements: Placements,
    warnings: Callable[[], tuple[WarningDocument, ...]],
) -> DocumentCache[TopologyView]:
    """The whole tree."""

    def whole(view: TopologyView) -> bytes:
        return topology_document.body(
            view, settings.mode.value, engine.clock(), engine.history.run_id
        )

    capacity = placements.state.capacity
    return DocumentCache(
        lambda: view_of(engine, placements, warnings()),
        whole,
        lambda: topology_document.version(engine.snapshot, capacity.version, warnings()),
        fresh_s=topology_document.FRESH_S,
        clock=engine.clock,
    )


def of_findings(
    settings: MasterSettings, engine: Engine, service: Callable[[], Service]
) -> DocumentCache[Examined]:
    """What is wrong, with the next steps."""

    def body(examined: Examined) -> bytes:
        return findings.body(examined, settings.mode.value, engine.clock(), engine.history.run_id)

    return _examined(engine, service, body)


def of_plain_page(
    settings: MasterSettings, engine: Engine, service: Callable[[], Service]
) -> DocumentCache[Examined]:
    """The page without scripts."""

    def body(examined: Examined) -> bytes:
        return plain.body(examined, settings.mode.value, engine.clock(), page().release)

    return _examined(engine, service, body)


def _examined(
    engine: Engine, service: Callable[[], Service], body: Callable[[Examined], bytes]
) -> DocumentCache[Examined]:
    return DocumentCache(
        lambda: Examined(service().view(), service().unready()),
        body,
        lambda: (service().version(), service().unready()),
        fresh_s=topology_document.FRESH_S,
        clock=engine.clock,
    )
