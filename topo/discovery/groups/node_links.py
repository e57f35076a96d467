"""The inter-node links of one node: the peer that each should lead to, and its state.

A link whose cable is out is no longer in what the worker says, but the claim of it is kept, and
with it the server at the other end. So what is looked for is known: this slot, that node.
"""

from dataclasses import dataclass
from operator import attrgetter

from topo.discovery.groups.wiring import Wiring
from topo.discovery.node.peer_claims import Claim, cables_subject, link_subject
from topo.discovery.node.record import NodeRecord
from topo.model.forest import LinkState, Wire
from topo.model.ids import NodeName, ServerUuid

_SLOT = attrgetter("slot")


@dataclass(frozen=True, slots=True)
class NodeLink:
    """One link as one end sees it. `nodes`: who states the server UUID at the other end.

    More than one of them is a cloned UUID; none is a server without a worker.
    """

    slot: int
    server: ServerUuid
    nodes: tuple[NodeName, ...]
    state: LinkState
    text: str


def node_links(record: NodeRecord, wiring: Wiring) -> tuple[NodeLink, ...]:
    """Return the links of a node by slot. O(its claims)."""
    ends = ((slot, claim) for claim in record.claims.values() for slot in claim.slots)
    in_order = sorted(ends, key=lambda end: (end[0], end[1].uuid))
    return tuple(_link(record, wiring, slot, claim) for slot, claim in in_order)


def wires(record: NodeRecord, wiring: Wiring) -> tuple[Wire, ...]:
    """Return the links of a node by slot, without the words: what every node shows. O(its slots).

    A server behind two slots has two.
    """
    node, dead = record.name, record.dead_claims()
    found = []
    for uuid, claim in record.claims.items():
        peer = wiring.neighbour_behind(node, uuid)
        if uuid in dead:
            state = LinkState.DOWN
        else:
            state = LinkState.UNCONFIRMED if peer is None else LinkState.UP
        for slot in claim.slots:
            is_lost = slot in claim.lost and record.verdict.is_down(cables_subject(uuid))
            found.append(Wire(slot, uuid, peer, LinkState.DOWN if is_lost else state))
    if len(found) > 1:
        found.sort(key=_SLOT)
    return tuple(found)


def _link(record: NodeRecord, wiring: Wiring, slot: int, claim: Claim) -> NodeLink:
    other = wiring.neighbour_behind(record.name, claim.uuid)
    nodes = wiring.owners(claim.uuid) if other is None else (other,)
    state, text = _state(record, claim, nodes, is_confirmed=other is not None)
    fewer = record.verdict.down.get(cables_subject(claim.uuid)) if slot in claim.lost else None
    if fewer is not None:
        state, text = LinkState.DOWN, fewer.text
    return NodeLink(slot, claim.uuid, nodes, state, text)


def _state(
    record: NodeRecord, claim: Claim, nodes: tuple[NodeName, ...], *, is_confirmed: bool
) -> tuple[LinkState, str]:
    dead = record.troubles.get(link_subject(claim.uuid))
    if dead is not None:
        return LinkState.DOWN, dead.text
    if is_confirmed:
        return LinkState.UP, ""
    if not nodes:
        return LinkState.UNCONFIRMED, "no worker has reported from that server"
    if len(nodes) > 1:
        return LinkState.UNCONFIRMED, "several nodes state that server UUID"
    return LinkState.UNCONFIRMED, "the other end does not state this link"
