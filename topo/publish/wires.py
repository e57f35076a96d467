"""The wires between nodes, each listed once, from what the nodes at their ends see.

Found: one wire for both ends that name each other, one for an end whose claim is not returned.
A wire is down when either end judges it dead: one end may see light that does not arrive. Two
cables between the same two nodes are two wires. Slots do not tell which ends are of one cable, so
what is up at one node is paired with what is up at the other, and in the order of the slots.
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
        for wire in node.wires:
            slot, server, peer, state = wire
            if peer is None:
                yield NodeWire(name, slot, None, None, server, state)
            elif peer not in told:
                back = _far_end(node, wire, known.get(peer))
                if back is None:
                    yield NodeWire(name, slot, peer, None, server, state)
                else:
                    joint = back.state if back.state is LinkState.DOWN else state
                    yield NodeWire(name, slot, peer, back.slot, server, joint)


def _far_end(node: Node, wire: Wire, other: Node | None) -> Wire | None:
    back = [each for each in other.wires if each.peer == node.name] if other is not None else []
    own = [each for each in node.wires if each.peer == wire.peer]
    if len(own) > 1 or len(back) > 1:
        own.sort(key=_up_first)
        back.sort(key=_up_first)
    return dict(zip(own, back, strict=False)).get(wire)


def _up_first(wire: Wire) -> tuple[bool, int]:
    return wire.state is LinkState.DOWN, wire.slot
