"""The switch ports at the ends of the nodes' network interfaces, as cables of the fabric.

Result: the cables of all dumps and, for each interface of a node whose far end names itself by
LLDP, one more, to the switch of that chassis.

How: an interface with one neighbour has a cable to it. With none, or with several, it keeps the
cable that it had. Where adapters for remote memory access name their interfaces, only those count:
others are of management. A neighbour that is called like a node is a host and no switch.

Why that is right: a silent neighbour is not an absent one, for daemons pause and adapters keep
frames to themselves, so silence takes nothing away. Two neighbours are a cable that was moved
within the last two minutes, when the old one has not expired yet, or a box between, from which no
cable follows. A switch is known by its chassis: names are free text, and two may share one.

An interface that shows its neighbour no more is remembered with the time. After `UNSEEN_S` it is
*lost*: that is longer than a switch takes to start again, and than lldpd keeps a dead neighbour.
The cable still counts, but somebody should know.

Cost: O(neighbours of the node).

Example: gpu-01 has eth2 at LEAF1 port 5, then at LEAF1 and LEAF9, then at LEAF9 alone. The cable
is to LEAF1 until the last, although two minutes pass in between.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple

from topo.discovery.groups.fabric.adapter_join import short_name
from topo.discovery.groups.fabric.wires import Uplink
from topo.model.fabric import Guid
from topo.model.ids import NodeName, natural_key
from topo.model.machine import NicNeighbour


class NodeCable(NamedTuple):
    """A cable of a node: the identity of its interface, what is at the far end, and the uplink."""

    adapter: Guid
    end: NicNeighbour
    uplink: Uplink


_Cables = Mapping[str, NodeCable]
"""By interface."""
_NONE: _Cables = MappingProxyType({})
UNSEEN_S = 600.0
"""lldpd keeps the neighbour of a dead sender for 120 s, and a switch starts in a few minutes."""


def interface_id(node: NodeName, interface: str) -> Guid:
    """Return the identity that an interface has as an adapter of the fabric."""
    return Guid(f"{node} {interface}")


class SwitchPorts:
    """The cables that nodes see by LLDP. Mutable; owned by `FabricGroups`."""

    def __init__(self) -> None:
        self._of: dict[NodeName, _Cables] = {}
        self._unclear: dict[NodeName, tuple[str, ...]] = {}
        self._unseen_since_s: dict[tuple[NodeName, str], float] = {}
        """The interfaces that do not show their neighbour, the first to go first."""
        self._lost_since_s: dict[tuple[NodeName, str], float] = {}
        self._names: Counter[str] = Counter()
        """What neighbours are called, in full and in short."""

    def __bool__(self) -> bool:
        return bool(self._of)

    @property
    def unclear(self) -> Mapping[NodeName, tuple[str, ...]]:
        """For nodes with interfaces that have several neighbours, a sentence for each of those."""
        return self._unclear

    def update(
        self,
        node: NodeName,
        neighbours: Collection[NicNeighbour],
        interfaces: Collection[str],
        now_s: float,
    ) -> bool:
        """Take the neighbours of a node, and the interfaces that count; whether it changed.

        All interfaces count where `interfaces` is empty.
        """
        seen: dict[str, list[NicNeighbour]] = {}
        for each in neighbours:
            if not interfaces or each.nic in interfaces:
                seen.setdefault(each.nic, []).append(each)
        before, unclear_before = self._of.get(node, _NONE), self._unclear.get(node, ())
        cables = {nic: end for nic, end in before.items() if not interfaces or nic in interfaces}
        unclear: list[str] = []
        for nic, several in sorted(seen.items(), key=lambda item: natural_key(item[0])):
            if len(several) == 1:
                cables[nic] = _cable(node, several[0])
            else:
                ends = " and ".join(map(_end, several))
                unclear.append(f"{nic} sees {ends}: a cable that was moved, or a box between")
        if cables != before or tuple(unclear) != unclear_before:
            self._put(node, cables, tuple(unclear))
        is_found = self._note_unseen(node, cables.keys() - seen.keys(), before, now_s)
        return is_found or cables != before or tuple(unclear) != unclear_before

    def _note_unseen(
        self, node: NodeName, unseen: Collection[str], before: Collection[str], now_s: float
    ) -> bool:
        """Note which interfaces of a node do not show their neighbour; whether a lost one does."""
        is_found = False
        for key in ((node, nic) for nic in before if nic not in unseen):
            self._unseen_since_s.pop(key, None)
            is_found |= self._lost_since_s.pop(key, None) is not None
        for key in ((node, nic) for nic in sorted(unseen)):
            if key not in self._lost_since_s:
                self._unseen_since_s.setdefault(key, now_s)
        return is_found

    def take_lost(self, now_s: float) -> bool:
        """Count as lost whose neighbour is not seen for `UNSEEN_S`; whether there is another one.

        O(1), and O(1) for each.
        """
        waiting = self._unseen_since_s
        late = [*takewhile(lambda key: waiting[key] + UNSEEN_S <= now_s, waiting)]
        for key in late:
            self._lost_since_s[key] = waiting.pop(key)
        return bool(late)

    def unseen(self) -> AbstractSet[tuple[NodeName, str]]:
        """Return the interfaces that do not show their neighbour, with their nodes."""
        return self._unseen_since_s.keys() | self._lost_since_s.keys()

    def unseen_since_s(self, node: NodeName, interface: str) -> float | None:
        """Return since when an interface does not show its neighbour; None while it does."""
        key = node, interface
        return self._unseen_since_s.get(key, self._lost_since_s.get(key))

    def lost(self, is_host: Callable[[str], bool]) -> Iterator[tuple[tuple[NodeName, ...], str]]:
        """Yield the nodes that lost a switch, with a sentence: by host, then by switch.

        `is_host` knows a node's names: a neighbour that is a host may be off.
        """
        by_node: defaultdict[NodeName, list[str]] = defaultdict(list)
        by_switch: defaultdict[str, list[tuple[NodeName, str]]] = defaultdict(list)
        for node, nic in self._lost_since_s:
            if not is_host(self._of[node][nic].end.name.lower()):
                by_node[node].append(nic)
        for node in sorted(by_node, key=natural_key):
            lost, cables = by_node[node], self._of[node]
            if len(lost) > 1 and len(lost) == len(cables):
                yield (
                    (node,),
                    f"{node}: none of its {len(lost)} interfaces shows a neighbour any more",
                )
                continue
            for nic in sorted(lost, key=natural_key):
                by_switch[cables[nic].end.chassis].append((node, nic))
        for _, several in sorted(by_switch.items()):
            node, nic = several[0]
            nodes = tuple(dict.fromkeys(node for node, _ in several))
            more = f", and {len(several) - 1} more interfaces do not" if len(several) > 1 else ""
            yield (
                nodes,
                f"{nic} of {node} does not show {_end(self._of[node][nic].end)} any more{more}",
            )

    def forget(self, node: NodeName) -> bool:
        """Drop what is known of a node; whether there was anything."""
        known = node in self._of or node in self._unclear
        self._note_unseen(node, (), self._of.get(node, _NONE), 0.0)
        self._put(node, _NONE, ())
        return known

    def _put(self, node: NodeName, cables: _Cables, unclear: tuple[str, ...]) -> None:
        for step, several in ((-1, self._of.pop(node, _NONE)), (1, cables)):
            for each in several.values():
                name = each.end.name.lower()
                for key in {name, short_name(name) or name}:
                    self._names[key] += step
                    if not self._names[key]:
                        del self._names[key]
        self._unclear.pop(node, None)
        if cables:
            self._of[node] = cables
        if unclear:
            self._unclear[node] = unclear

    def cables(self, node: NodeName) -> Collection[NodeCable]:
        """Return the cables of a node, those to hosts among them."""
        return self._of.get(node, _NONE).values()

    def nodes(self) -> Collection[NodeName]:
        """Return the nodes that see anything at the end of a cable."""
        return self._of.keys()

    def are_seen(self, names: Iterable[str]) -> bool:
        """Return whether a neighbour is called by one of these names of nodes, in lower case."""
        return any(each in self._names for name in names for each in (name, short_name(name)))

    def interfaces(self, node: NodeName) -> Collection[str]:
        """Return the interfaces of a node that have a cable."""
        return self._of.get(node, _NONE).keys()


def _cable(node: NodeName, end: NicNeighbour) -> NodeCable:
    uplink = Uplink(Guid(end.chassis), end.port, "")
    return NodeCable(interface_id(node, end.nic), end, uplink)


def _end(neighbour: NicNeighbour) -> str:
    return f"{neighbour.name or neighbour.chassis} port {neighbour.port}"
