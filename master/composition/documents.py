"""The documents that many clients ask for at once, each rendered once for all of them."""

from collections.abc import Callable, Iterable

from master.availability import Availability
from master.composition.core import Core
from master.current_topology import CurrentTopology
from master.replicas.leader_document import LeaderDocuments
from master.service import Documents
from master.tree import findings, topology_document
from master.tree.document_cache import DocumentCache
from master.tree.findings import Examined
from master.tree.topology_document import TopologyView
from master.web import plain
from master.web.files import page
from topo.gangs.machine.gang import Gang
from topo.publish.nodegroup import render


def build_documents(
    core: Core,
    topology: CurrentTopology,
    availability: Availability,
    jobs: Callable[[], Iterable[Gang]] = tuple,
) -> Documents:
    """Return the documents; each is made at its first request. `jobs` are those that are known."""
    engine, mode = core.engine, core.settings.mode

    def topology_body(view: TopologyView) -> bytes:
        return topology_document.body(view, mode.value, engine.clock(), engine.history.run_id)

    def finding(examined: Examined) -> bytes:
        return findings.body(examined, mode.value, engine.clock(), engine.history.run_id)

    def plain_page(examined: Examined) -> bytes:
        return plain.body(examined, mode.value, engine.clock(), page().release)

    def examined(
        body: Callable[[Examined], bytes], content: Callable[[bytes], bytes] = bytes
    ) -> DocumentCache[Examined]:
        return DocumentCache(
            lambda: Examined(topology.view(), availability.unready_reasons(), tuple(jobs())),
            body,
            lambda: (topology.version(), availability.unready_reasons()),
            content=content,
            fresh_s=topology_document.FRESH_S,
            clock=engine.clock,
        )

    return Documents(
        node_group=DocumentCache(
            lambda: engine.snapshot.forest,
            render,
            lambda: engine.snapshot.generation,
            clock=core.clock,
        ),
        topology=DocumentCache(
            topology.view,
            topology_body,
            topology.version,
            fresh_s=topology_document.FRESH_S,
            clock=engine.clock,
        ),
        findings=examined(finding, findings.without_ages),
        plain=examined(plain_page),
        of_leader=LeaderDocuments(engine, core.placements.state, mode, core.clock),
    )
