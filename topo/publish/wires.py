"""The wires between nodes, each listed once, from what the nodes at their ends see.

Found: one wire for both ends that name each other, one for an end whose claim is not returned.
A wire is down when either end judges it dead: one end may see light that does not arrive.
O(nodes and wires).

Example: a sees server B in slot 1, b sees server A in slot 2 and X in slot 1; no node states X. The
wires are a 1 - b 2, up, and b 1 - X, unconfirmed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from topo.model.forest import LinkState, Node, Wire
from topo.model.ids import NodeName, ServerUuid


class NodeWire(NamedTuple):
    """A wire between the slots of two nodes; without a peer only one end states it.

    `server` is the UUID that `node` sees at the other end.
    """

    node: NodeName
    slot: int
    peer: NodeName | None
    peer_slot: int | None
    server: ServerUuid
    state: LinkState


def wires_of(shown: Iterable[Node], known: Mapping[NodeName, Node]) -> Iterator[NodeWire]:
    """Return the wires of the nodes shown, in their order; `known` has those at the other ends,
    too.

    A node that is shown twice, as below a group inside another of its name, is listed once.
    """
    told: set[NodeName] = set()
    for node in shown:
        name = node.name
        if name in told:
            continue
        told.add(name)
        for slot, server, peer, state in node.wires:
            if peer is None:
                yield NodeWire(name, slot, None, None, server, state)
            elif peer not in told:
                back = _end_at(known.get(peer), name)
                if back is None:
                    yield NodeWire(name, slot, peer, None, server, state)
                else:
                    joint = back.state if back.state is LinkState.DOWN else state
                    yield NodeWire(name, slot, peer, back.slot, server, joint)


def _end_at(node: Node | None, peer: NodeName) -> Wire | None:
    for wire in node.wires if node is not None else ():
        if wire.peer == peer:
            return wire
    return None
