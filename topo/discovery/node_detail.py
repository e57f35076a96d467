"""What is known of one node, without its place: for `GET /v1/topology?node=`."""

from dataclasses import dataclass
from typing import NamedTuple

from topo.discovery.groups.fabric.uplinks import NodeUplink
from topo.discovery.groups.membership import Membership
from topo.discovery.groups.node_links import NodeLink, node_links
from topo.discovery.node.record import NodeRecord
from topo.model.ids import NodeName, SourceName
from topo.model.machine import NodeFacts


class StatedPath(NamedTuple):
    """The groups that a source writes down for a node, outermost first."""

    source: SourceName
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """Its last reading, its links and its cables to switches; none of a node that has not spoken.

    `stated`: where each source that writes groups down puts it, in the order of precedence.
    """

    name: NodeName
    facts: NodeFacts | None = None
    neighbours: tuple[NodeName, ...] = ()
    seen_at_s: float | None = None
    stale: bool = False
    links: tuple[NodeLink, ...] = ()
    stated: tuple[StatedPath, ...] = ()
    uplinks: tuple[NodeUplink, ...] = ()


def node_detail(
    node: NodeName,
    record: NodeRecord | None,
    membership: Membership,
    stated: tuple[StatedPath, ...],
) -> NodeDetail:
    """Return what is known of a node; of one without a worker what is written of it. O(claims)."""
    if record is None:
        return NodeDetail(node, stated=stated)
    return NodeDetail(
        node,
        record.facts,
        membership.wiring.neighbours(record.name),
        record.seen_at_s,
        record.stale,
        node_links(record, membership.wiring),
        stated,
        membership.uplinks(node, record.facts),
    )
