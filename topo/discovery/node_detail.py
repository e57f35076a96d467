"""What is known of one node, without its place: for `GET /v1/topology?node=`."""

from dataclasses import dataclass

from topo.discovery.groups.node_links import NodeLink, node_links
from topo.discovery.groups.wiring import Wiring
from topo.discovery.node.record import NodeRecord
from topo.model.ids import NodeName
from topo.model.machine import NodeFacts


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """Its last reading and its links; of a node that has not spoken, its name alone."""

    name: NodeName
    facts: NodeFacts | None = None
    neighbours: tuple[NodeName, ...] = ()
    seen_at_s: float | None = None
    stale: bool = False
    links: tuple[NodeLink, ...] = ()


def node_detail(record: NodeRecord, wiring: Wiring) -> NodeDetail:
    """Return what is known of a node that has a worker. O(its claims)."""
    return NodeDetail(
        record.name,
        record.facts,
        wiring.neighbours(record.name),
        record.seen_at_s,
        record.stale,
        node_links(record, wiring),
    )
