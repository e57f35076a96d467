"""The inter-node links of one node, dead ones too: whom each should lead to, and how it fares.

A link whose cable is out is no longer in what the worker says, but the claim of it is kept, and
with it the server at the other end. So what is looked for is known: this slot, that node.
"""

from dataclasses import dataclass
from operator import attrgetter

from topo.discovery.groups.wiring import Wiring
from topo.discovery.node.peer_claims import Claim, link_subject
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
    claims = sorted(record.claims.values(), key=lambda claim: (claim.slot, claim.uuid))
    return tuple(_link(record, wiring, claim) for claim in claims)


def wires(record: NodeRecord, wiring: Wiring) -> tuple[Wire, ...]:
    """Return the links of a node by slot, without the words: what every node shows. O(its
    claims).
    """
    node, dead = record.name, record.dead_claims()
    found = []
    for uuid, claim in record.claims.items():
        peer = wiring.neighbour_behind(node, uuid)
        if uuid in dead:
            state = LinkState.DOWN
        else:
            state = LinkState.UNCONFIRMED if peer is None else LinkState.UP
        found.append(Wire(claim.slot, uuid, peer, state))
    if len(found) > 1:
        found.sort(key=_SLOT)
    return tuple(found)


def _link(record: NodeRecord, wiring: Wiring, claim: Claim) -> NodeLink:
    other = wiring.neighbour_behind(record.name, claim.uuid)
    nodes = wiring.owners(claim.uuid) if other is None else (other,)
    state, text = _state(record, claim, nodes, is_confirmed=other is not None)
    return NodeLink(claim.slot, claim.uuid, nodes, state, text)


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
