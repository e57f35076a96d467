"""The document of `GET /v1/findings`: what `topo doctor` finds in the tree, judged by the master.

The judgement reads a `TopologyDocument`. It is given one with what it reads and no more: to check
10,000 nodes against their models holds every other thread up for a third of a second.
"""

from dataclasses import dataclass

import orjson

from master.tree import topology_document
from master.tree.topology_document import Part, TopologyView
from topo.diagnosis import diagnosis
from topo.diagnosis.finding import Finding
from topo.model.forest import Group, LinkState, Node
from topo.model.rest.topology import (
    Capacity,
    GroupDocument,
    NodeDocument,
    TopologyDocument,
    UnplacedDocument,
    WireDocument,
)
from topo.placement.capacity.node_usage import NO_COUNTS
from topo.publish.wires import nodes_of, wires_of

_UNCOUNTED = Capacity(nodes=0, ready=0, gpus=0)
_OF_COUNTS = {"no-gpus", "no-gpus-seen"}
"""Codes that also ask what the cluster counts on a node."""
WAIT_STEP = "wait, or see `sources` of GET /v1/topology"


@dataclass(frozen=True, slots=True)
class Examined:
    """What is judged: the tree as it is shown, and why the master is not ready."""

    view: TopologyView
    unready: tuple[str, ...] = ()


def findings(examined: Examined, mode: str, now_s: float) -> list[Finding]:
    """In the order in which to look at them; `now_s` on the clock of the snapshot's sources."""
    found = diagnosis.examine(judged(examined.view, mode, now_s))
    if not examined.unready or any(map(diagnosis.is_of_source, found)):
        return found
    return [*diagnosis.service("/ready", 503, "; ".join(examined.unready), WAIT_STEP), *found]


def of_forest(view: TopologyView, mode: str) -> list[Finding]:
    """What the forest of a moment alone shows: how sources fared then, and counts, are not kept."""
    found = diagnosis.examine(judged(view, mode, 0.0))
    return [finding for finding in found if finding.code not in _OF_COUNTS]


def body(examined: Examined, mode: str, now_s: float, run: str) -> bytes:
    """The document's bytes; `run` counts its generation."""
    document = {
        "generation": examined.view.snapshot.generation,
        "run": run,
        "findings": findings(examined, mode, now_s),
    }
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


def judged(view: TopologyView, mode: str, now_s: float) -> TopologyDocument:
    """What the judgement reads of `/v1/topology`: no capacity, and of the wires those not up."""
    forest = view.snapshot.forest
    nodes, counts = tuple(nodes_of(forest)), view.usage.counts
    known = {node.name: node for node in nodes}
    unplaced = tuple(
        UnplacedDocument.model_construct(
            name=entry.node.name,
            kind="node",
            status=entry.node.status,
            reasons=entry.node.reasons,
            reason=entry.reason,
        )
        for entry in forest.unplaced
    )
    wires = (
        WireDocument.model_construct(
            node=node, slot=slot, peer=peer, peer_slot=peer_slot, server=server, state=state
        )
        for node, slot, peer, peer_slot, server, state in wires_of(nodes, known)
        if state != LinkState.UP
    )

    def leaf(node: Node) -> NodeDocument:
        return NodeDocument.model_construct(
            name=node.name,
            kind="node",
            status=node.status,
            reasons=node.reasons,
            gpus=node.gpus or counts.get(node.name, NO_COUNTS)[-1],
        )

    def group(of: Group) -> GroupDocument:
        return GroupDocument.model_construct(
            name=of.name,
            kind=of.kind,
            tier=of.tier,
            path=(),  # `walk` knows it
            status=of.status,
            capacity=_UNCOUNTED,
            source=of.source,
            reasons=of.reasons,
            child=tuple(
                group(child) if isinstance(child, Group) else leaf(child) for child in of.children
            ),
        )

    rest = topology_document.document(view, mode, now_s, Part(groups=()))
    checked = TopologyDocument.model_validate({**rest, "unplaced": (), "wires": ()})
    groups = tuple(map(group, forest.roots))
    return checked.model_copy(
        update={"groups": groups, "unplaced": unplaced, "wires": tuple(wires)}
    )
