"""The cables of nodes to leaf switches: beside which GPUs each begins, and on which rail it ends.

Result: for each node its cables, and a sentence about those that are on another rail than most.

How: the worker says which GPUs an adapter is near to (`near_gpus`), dumps and neighbours where its
cable leads, and the nodes of a group together what its rails are (`rails`).

Cost: O(nodes) and O(cables of the nodes that differ) where the fabric is settled, O(adapters of
the node) for a node.

Example: see `rails`.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from topo.discovery.groups.fabric.near_gpus import NearAdapter, near_adapters
from topo.discovery.groups.fabric.rails import Cables, Rails, find_rails
from topo.discovery.groups.fabric.switch_ports import SwitchPorts, interface_id
from topo.discovery.groups.fabric.switch_tiers import SwitchGroup
from topo.discovery.groups.fabric.trunks import usual
from topo.discovery.groups.fabric.wires import Uplink, Wires
from topo.discovery.node.fabric_ports import Cabling
from topo.model.fabric import FabricSwitch, Guid, newest_rate
from topo.model.ids import NodeName
from topo.model.machine import NodeFacts
from topo.model.words import listed


@dataclass(frozen=True, slots=True)
class NodeUplink:
    """A cable of a node to a switch; `gpus`: the numbers of those near its adapter.

    `rail` is None where the group has no rails, or the switch is of none. The neighbour that named
    itself is not seen since `unseen_since_s`; None while it is, and of a cable in a dump.
    """

    adapter: str
    interface: str
    gpus: tuple[int, ...]
    switch: str
    port: str
    rate: str
    rail: int | None
    unseen_since_s: float | None


def seen_uplinks(node: NodeName, facts: NodeFacts) -> tuple[NodeUplink, ...]:
    """Return the cables that a reading shows by LLDP, where the fabric makes no groups.

    Of interfaces of adapters for remote memory access; one that sees two neighbours has two.
    """
    return tuple(
        NodeUplink(
            adapter=near.name,
            interface=near.interface,
            gpus=near.gpus,
            switch=end.name or end.chassis,
            port=end.port,
            rate=newest_rate("", near.gbps),
            rail=None,
            unseen_since_s=None,
        )
        for near in near_adapters(node, facts)
        for end in facts.nic_neighbours
        if near.interface == end.nic
    )


@dataclass(frozen=True, slots=True)
class GoneCable:
    """Where the cable of an adapter, or of an interface of one, ended that no source shows now."""

    node: NodeName
    adapter: Guid
    name: str
    interface: str
    switch: FabricSwitch


class _OffRail(NamedTuple):
    """A cable that ends on another rail than most nodes have beside these GPUs."""

    near: NearAdapter
    uplink: Uplink
    usual: frozenset[str]


class NodeUplinks:
    """The cables of all nodes. Mutable; owned by `FabricGroups`."""

    def __init__(self, switch_ports: SwitchPorts) -> None:
        self._switch_ports = switch_ports
        self._near: dict[NodeName, tuple[NearAdapter, ...]] = {}
        self._wires = Wires()
        self._groups: Mapping[NodeName, SwitchGroup] = {}
        self._rails: Mapping[SwitchGroup, Rails] = {}
        self._irregular: frozenset[NodeName] = frozenset()
        self._counted: dict[NodeName, tuple[SwitchGroup, Cables]] = {}
        """The cables of nodes to the leaves of their group, of those that were settled."""
        self._gone: dict[Guid, FabricSwitch] = {}
        """The switch of each adapter that is in no dump any more, as the last one had it."""
        self._uncabled: Mapping[NodeName, Sequence[str]] | None = None
        """The adapters without a cable; None where they are to be looked for again."""
        self._at: dict[Guid, set[NodeName]] | None = None
        """The nodes with a cable to each switch; None where that is to be counted again."""
        self._leaves: AbstractSet[Guid] = frozenset()
        """The switches that are leaves of groups."""
        self._recabled: set[NodeName] = set()
        """The nodes whose cables may end elsewhere than `take_recabled` said."""
        self.version = 0
        """Grows when the cables differ."""

    def update(self, node: NodeName, near: tuple[NearAdapter, ...]) -> bool:
        """Take which GPUs the adapters of a node are near to; whether it changed.

        A reading without adapters, or without the GPUs or the speed of one, takes none away.
        """
        known = self._near.get(node, ())
        before = {each.identity: each for each in known}
        kept = tuple(_kept(each, before.get(each.identity, each)) for each in near) or known
        self._near[node] = kept
        if kept == known:
            return False
        self._uncabled = None
        self._note_change()
        self._recabled.add(node)
        self._counted.pop(node, None)
        return True

    def speeds(self) -> dict[Guid, float]:
        """Return the Gbit/s of each adapter whose node says it. O(adapters)."""
        each = (near for several in self._near.values() for near in several)
        return {near.identity: near.gbps for near in each if near.gbps}

    def interfaces(self, node: NodeName) -> frozenset[str]:
        """Return the interfaces of a node that its adapters for remote memory access name."""
        near = self._near.get(node, ())
        return frozenset(each.interface for each in near if each.interface)

    def forget(self, node: NodeName) -> None:
        """Drop what is known of a node."""
        for near in self._near.pop(node, ()):
            self._gone.pop(near.identity, None)
        self._uncabled = None
        self._note_change()
        self._counted.pop(node, None)

    @property
    def irregular(self) -> frozenset[NodeName]:
        """The nodes with an adapter on another rail than most."""
        return self._irregular

    def settle(
        self,
        wires: Wires,
        groups: Mapping[NodeName, SwitchGroup],
        touched: Iterable[NodeName] | None,
    ) -> None:
        """Find the rails among these cables; `groups`: the innermost group of each node.

        `touched`: the nodes whose cables differ since the last time; None for all.
        """
        if touched is None:
            self._note_gone(wires)
        if touched is None or groups != self._groups:
            self._uncabled = None
        self._note_change()
        self._note_recabled(groups, touched)
        self._wires, self._groups = wires, groups
        for node in [*self._counted] if touched is None else touched:
            self._counted.pop(node, None)
        members: defaultdict[SwitchGroup, defaultdict[Cables, list[NodeName]]]
        members = defaultdict(lambda: defaultdict(list))
        for node, group in groups.items():
            if len(group.switches) > 1 and (cables := self._cables(node, group)):
                members[group][cables].append(node)
        names = {leaf: wires.switches[leaf].name for group in members for leaf in group.switches}
        alike = {group: {cables: len(of[cables]) for cables in of} for group, of in members.items()}
        self._rails = find_rails(alike, names)
        self._irregular = frozenset(
            node
            for group, rails in self._rails.items()
            for cables, nodes in members[group].items()
            if not rails.is_regular(cables)
            for node in nodes
        )

    def _note_change(self) -> None:
        self.version += 1
        self._at = None

    def gone(self) -> tuple[GoneCable, ...]:
        """Return what the next process has to know. O(adapters) while there is any, else O(1)."""
        unseen = self._switch_ports.unseen()
        if not (self._gone or unseen):
            return ()
        return tuple(
            GoneCable(node, near.identity, near.name, near.interface, switch)
            for node, several in self._near.items()
            for near in several
            if (switch := self._gone_switch(node, near, unseen)) is not None
        )

    def _gone_switch(
        self, node: NodeName, near: NearAdapter, unseen: AbstractSet[tuple[NodeName, str]]
    ) -> FabricSwitch | None:
        if not (ends := self._wires.uplinks.get(near.identity)):
            return self._gone.get(near.identity)
        is_unseen = (node, near.interface) in unseen
        return self._wires.switches[ends[0].switch] if is_unseen else None

    def restore(self, gone: Iterable[GoneCable]) -> None:
        """Take up where cables of adapters ended, until their nodes speak."""
        for each in gone:
            near = NearAdapter(each.adapter, each.name, each.interface, ())
            self._near[each.node] = (*self._near.get(each.node, ()), near)
            self._gone[each.adapter] = each.switch
        self._note_change()

    def _note_gone(self, wires: Wires) -> None:
        """Keep where the adapters of nodes were that have no cable any more. O(adapters)."""
        known = {near.identity for several in self._near.values() for near in several}
        before = self._wires
        for identity in known & before.uplinks.keys():
            for uplink in before.uplinks[identity][:1]:
                self._gone[identity] = before.switches[uplink.switch]
        self._gone = {
            identity: switch
            for identity, switch in self._gone.items()
            if identity in known and not wires.uplinks.get(identity)
        }

    def _note_recabled(
        self, groups: Mapping[NodeName, SwitchGroup], touched: Iterable[NodeName] | None
    ) -> None:
        leaves = frozenset(leaf for group in set(groups.values()) for leaf in group.switches)
        is_other = touched is None or leaves != self._leaves
        self._recabled.update(self._near if is_other else touched or ())
        self._leaves = leaves

    def take_recabled(self) -> Iterator[tuple[NodeName, Cabling]]:
        """Yield where cables lead of nodes whose cables may differ. O(adapters of these)."""
        while self._recabled:
            node = self._recabled.pop()
            yield node, self._cabling(node)

    def _cabling(self, node: NodeName) -> Cabling:
        """Return which adapters of a node, or interfaces without one, end at leaves of groups."""
        joining: dict[str, str] = {}
        elsewhere: set[str] = set()
        for near, uplink in self._node_ends(node, self._wires):
            name = near.name or near.interface
            if uplink.switch in self._leaves:
                joining[name] = self._wires.switches[uplink.switch].name
            else:
                elsewhere.add(name)
        return Cabling(tuple(joining.items()), frozenset(elsewhere.difference(joining)))

    def switches(self, node: NodeName) -> dict[str, Guid]:
        """Return the switch of each adapter of a node by its name, also where it was last.

        An adapter with cables to several switches is left out.
        """
        found: defaultdict[str, set[Guid]] = defaultdict(set)
        for near in self._near.get(node, ()):
            found[near.name] |= self._switches(near.identity)
        return {name: next(iter(ends)) for name, ends in found.items() if len(ends) == 1 and name}

    def _switches(self, identity: Guid) -> set[Guid]:
        found = {uplink.switch for uplink in self._wires.uplinks.get(identity, ())}
        return found or {self._gone[identity].guid} if identity in self._gone else found

    def nodes_at(self, switch: Guid) -> Collection[NodeName]:
        """Return the nodes with a cable to a switch. O(adapters) after a change, else O(1)."""
        if self._at is None:
            self._at = {}
            for node, several in self._near.items():
                for each in set[Guid]().union(*(self._switches(near.identity) for near in several)):
                    self._at.setdefault(each, set()).add(node)
        return self._at.get(switch, ())

    def uncabled(self) -> Mapping[NodeName, Sequence[str]]:
        """Return the adapters that never had a cable where most nodes of their group have one.

        Told by the adapters' names, of nodes that have fewer cables than most: a host may number
        its adapters otherwise. O(adapters) after a change of dumps, groups or adapters, else O(1).
        """
        if self._uncabled is None:
            self._uncabled = self._find_uncabled()
        return self._uncabled

    def _find_uncabled(self) -> dict[NodeName, list[str]]:
        cabled: Counter[tuple[SwitchGroup, str]] = Counter()
        lacking: defaultdict[tuple[SwitchGroup, str], list[NodeName]] = defaultdict(list)
        numbers: defaultdict[SwitchGroup, dict[NodeName, int]] = defaultdict(dict)
        for node, group in self._groups.items():
            adapters = [near for near in self._near.get(node, ()) if not near.interface]
            for near in adapters:
                if self._wires.uplinks.get(near.identity):
                    cabled[group, near.name] += 1
                    numbers[group][node] = numbers[group].get(node, 0) + 1
                elif near.identity not in self._gone:
                    lacking[group, near.name].append(node)
        found: defaultdict[NodeName, list[str]] = defaultdict(list)
        for (group, name), nodes in lacking.items():
            number, most = cabled[group, name], usual(numbers[group].values())
            if most is None or number <= len(nodes):
                continue
            of = f"{number} of {number + len(nodes)} nodes of its group"
            for node in nodes:
                if numbers[group].get(node, 0) < most:
                    found[node].append(f"{name} has no cable in any dump, on {of} it has")
        return found

    def name_of(self, switch: Guid) -> str:
        """Return the name of a switch, also of one that no dump has any more. O(adapters gone)."""
        known = self._wires.switches.get(switch)
        gone = (each.name for each in self._gone.values() if each.guid == switch)
        return known.name if known is not None else next(gone, switch)

    def of(self, node: NodeName) -> tuple[NodeUplink, ...]:
        """Return the cables of a node, those of its adapters first.

        Another thread may settle new cables meanwhile: all are of the same ones.
        """
        wires = self._wires
        return tuple(self._shown(node, *end, wires) for end in self._node_ends(node, wires))

    def _node_ends(self, node: NodeName, wires: Wires) -> Iterator[tuple[NearAdapter, Uplink]]:
        near, interfaces = self._near.get(node, ()), self._switch_ports.interfaces(node)
        if not interfaces:
            return _ends(wires, near)
        known = {each.identity for each in near}
        others = ((interface_id(node, nic), nic) for nic in interfaces)
        more = (NearAdapter(guid, "", nic, ()) for guid, nic in others if guid not in known)
        return _ends(wires, (*near, *more))

    def off_rail(self, node: NodeName) -> str:
        """Return which adapters of a node are on another rail than most; empty where none is."""
        if node not in self._irregular:
            return ""
        group = self._groups[node]
        rails = self._rails[group]
        off = [
            _OffRail(near, uplink, rails.leaves[near.gpus, near.card])
            for near, uplink in _ends(self._wires, self._near.get(node, ()))
            if uplink.switch in group.switches
            and rails.are_other((near.gpus, near.card), uplink.switch)
        ]
        if len(off) == 2 and all(
            one.uplink.switch in other.usual for one, other in (off, off[::-1])
        ):
            names = " and ".join(_shown(each.near) for each in off)
            ends = " and ".join(self._port(each.uplink, rails) for each in off)
            return f"{node}: the cables of {names} are exchanged: they end at {ends}"
        where = [
            f"{_shown(each.near)} is at {self._port(each.uplink, rails)}, on most nodes of its "
            f"group at {self._usual(each.usual, rails)}"
            for each in off
        ]
        return f"{node}: {listed(where)}" if where else ""

    def _cables(self, node: NodeName, group: SwitchGroup) -> Cables:
        """Return the cables between GPUs of a node and the leaves of its own group."""
        known = self._counted.get(node)
        if known is not None and known[0] == group:
            return known[1]
        uplinks, switches = self._wires.uplinks, group.switches
        found = tuple(
            [
                ((gpus, card), each.switch)
                for identity, _, _, gpus, card, _ in self._near.get(node, ())
                if gpus and identity in uplinks
                for each in uplinks[identity]
                if each.switch in switches
            ]
        )
        self._counted[node] = group, found
        return found

    def _shown(self, node: NodeName, near: NearAdapter, uplink: Uplink, wires: Wires) -> NodeUplink:
        group = self._groups.get(node)
        rails = self._rails.get(group) if group is not None else None
        return NodeUplink(
            adapter=near.name,
            interface=near.interface,
            gpus=near.gpus,
            switch=wires.switches[uplink.switch].name,
            port=uplink.port,
            rate=newest_rate(uplink.rate, near.gbps),
            rail=None if rails is None else rails.number(uplink.switch),
            unseen_since_s=self._switch_ports.unseen_since_s(node, near.interface),
        )

    def _port(self, uplink: Uplink, rails: Rails) -> str:
        number = rails.number(uplink.switch)
        rail = "" if number is None else f" (rail {number})"
        return f"{self._wires.switches[uplink.switch].name} port {uplink.port}{rail}"

    def _usual(self, leaves: Iterable[str], rails: Rails) -> str:
        names = sorted(self._wires.switches[Guid(leaf)].name for leaf in leaves)
        return f"{' or '.join(names)} (rail {rails.number(min(leaves))})"


def _kept(near: NearAdapter, before: NearAdapter) -> NearAdapter:
    """Return an adapter with what a reading before had of it and this one lacks."""
    of = near if near.gpus else before
    return of._replace(gbps=near.gbps or before.gbps)


def _ends(wires: Wires, adapters: Iterable[NearAdapter]) -> Iterator[tuple[NearAdapter, Uplink]]:
    for near in adapters:
        for uplink in wires.uplinks.get(near.identity, ()):
            yield near, uplink


def _shown(near: NearAdapter) -> str:
    """Return `mlx5_3 beside GPU 3`."""
    word = "GPU" if len(near.gpus) == 1 else "GPUs"
    return f"{near.name} beside {word} {' and '.join(map(str, near.gpus))}"
