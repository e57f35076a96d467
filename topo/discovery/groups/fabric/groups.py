"""The groups that dumps of a switched fabric state, as the path of each node in them.

Result: for each node its groups, outermost first, or the reason why the fabric places it nowhere;
what of its cables does not fit that.

How: the dumps make one set of cables (`wires`), adapters are joined to nodes (`adapter_join`),
nodes add what they see at the ends of their own cables (`switch_ports`), and the switches in tiers
make the groups of all hosts (`switch_tiers`), which may have rails (`uplinks`). Hosts that are no
node count there, too, so that groups do not depend on whose worker has spoken. A group is called
after its first switch; it keeps its name while more than half of the nodes that it had are in it.

Cost: O(dumps) for another dump, O(adapters) where an adapter moves to another node, O(nodes and
cables between switches) where a node sees another cable, else O(adapters of the node).

Example: see `switch_tiers`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from itertools import chain
from types import MappingProxyType

from topo.discovery.groups.fabric.adapter_join import AdapterJoin, Stated
from topo.discovery.groups.fabric.host_cables import HostCables
from topo.discovery.groups.fabric.near_gpus import near_adapters
from topo.discovery.groups.fabric.slow_cables import slow_cables
from topo.discovery.groups.fabric.switch_ports import SwitchPorts
from topo.discovery.groups.fabric.switch_tiers import (
    HostGroups,
    SwitchGroup,
    SwitchPath,
    is_fabric_kind,
    place,
)
from topo.discovery.groups.fabric.trunks import unsure_leaves, weak_trunks
from topo.discovery.groups.fabric.uplinks import NodeUplinks
from topo.discovery.groups.fabric.wires import Uplink, Wires, joined
from topo.discovery.groups.naming import NameBook, NameRecord
from topo.model.conditions.sources import SourceCondition
from topo.model.conditions.tree import ConflictCondition, NodeCondition
from topo.model.errors import require
from topo.model.fabric import FabricDump, Guid
from topo.model.forest import Path, PathGroup, Reason, SourceWarning
from topo.model.ids import GroupName, Kind, NodeName, natural_key
from topo.model.machine import NodeFacts
from topo.model.observation import FABRIC
from topo.model.words import counted, listed

_SHOWN = 3
_WEAK_SHOWN = 12
"""A technician goes to each of these, and nothing else names them."""


@dataclass(frozen=True, slots=True)
class FabricFinding:
    """Something of the nodes' cables that does not fit; `code` is that of the conflict."""

    code: ConflictCondition
    nodes: tuple[NodeName, ...]
    text: str


class FabricGroups:
    """The dumps, the nodes, and the groups that follow. Mutable; owned by the discovery state.

    `kept` are the paths of an earlier process, which stand until the dumps are read. A dump that
    is cut off does not count then: what it lacks may be just what those paths rest on.
    """

    def __init__(
        self,
        names: Collection[NameRecord] = (),
        kept: Mapping[NodeName, Path] = MappingProxyType({}),
    ) -> None:
        self._names = tuple(names)
        self._books: dict[Kind, NameBook] = {}
        self._paths: dict[NodeName, Path] = dict(kept)
        self._is_restored = bool(kept)
        self._dumps: dict[str, FabricDump] = {}
        self._cut_off: dict[str, str] = {}
        """What each dump lacks that was cut off."""
        self._dumped = Wires()
        self._cables = HostCables()
        self._is_stale = False
        """Whether the next count takes the cables of all hosts."""
        self._touched: set[NodeName] = set()
        """The nodes that see other cables than those that were counted."""
        self._switch_ports = SwitchPorts()
        self.uplinks = NodeUplinks(self._switch_ports)
        self._join = AdapterJoin()
        self._stated: dict[NodeName, Stated] = {}
        self._is_unsettled = False
        self._missing_since_s: dict[NodeName, float] = {}
        self.findings: tuple[FabricFinding, ...] = ()
        self.doubts: tuple[SourceWarning, ...] = ()
        self._weak: tuple[str, ...] = ()
        """What is weak of the cables between switches."""
        self._unsure: tuple[str, ...] = ()
        """The leaves of which nobody can say what they are under."""

    @property
    def paths(self) -> Mapping[NodeName, Path]:
        """The groups of each node that has any."""
        return self._paths

    @property
    def names(self) -> tuple[NameRecord, ...]:
        """The names of groups on record, for the state file."""
        unread = (each for each in self._names if each.kind not in self._books)
        records = (each for book in self._books.values() for each in book.records)
        return (*(each for each in unread if is_fabric_kind(each.kind)), *records)

    @property
    def detail(self) -> str:
        """The numbers of dumps, switches and adapters; empty before any cable is known."""
        if not self.has_cables:
            return ""
        adapters, joined_ = len(self._cables.wires.adapters), len(self._cables.nodes)
        of = (
            f"{counted(len(self._cables.wires.switches), 'switch')}, {counted(adapters, 'adapter')}"
        )
        return f"{counted(len(self._dumps), 'dump')}: {of}, {joined_} of them in known nodes"

    @property
    def sees_switches(self) -> bool:
        """Whether a node sees a switch at the end of a cable."""
        return bool(self._switch_ports)

    @property
    def has_cables(self) -> bool:
        """Whether a dump counts, or a node sees a switch at the end of a cable."""
        return bool(self._dumps or self._switch_ports)

    @property
    def root_names(self) -> AbstractSet[GroupName]:
        """The names of the outermost groups."""
        return {path[0].name for path in self._paths.values()}

    def replace(self, dumps: Mapping[str, FabricDump]) -> None:
        """Take all dumps, by their names."""
        self._cut_off = {name: each.missing for name, each in sorted(dumps.items()) if each.missing}
        passed_over = self._cut_off.keys() if self._is_restored else ()
        self._dumps = {name: dumps[name] for name in dumps if name not in passed_over}
        self._dumped = joined(self._dumps)
        self._join.replace(self._dumped.adapters)
        self._is_unsettled = self._is_stale = True

    def update(self, node: NodeName, adapters: Iterable[Guid], names: Iterable[str]) -> None:
        """Take the adapters and the names of a node.

        A worker that sees no adapter for once takes none of them out.
        """
        before = self._stated.get(node)
        found = frozenset(adapters) or (before.adapters if before is not None else frozenset())
        self._put(node, Stated(found, frozenset(names)))

    def update_cables(self, node: NodeName, facts: NodeFacts, now_s: float) -> None:
        """Take what a node sees at the ends of its cables, and beside which GPUs they begin."""
        self._is_unsettled |= self.uplinks.update(node, near_adapters(node, facts))
        interfaces = self.uplinks.interfaces(node)
        if self._switch_ports.update(node, facts.nic_neighbours, interfaces, now_s):
            self._touched.add(node)
            self._is_unsettled = True

    def forget(self, node: NodeName) -> None:
        """Drop what is known of a node."""
        self._put(node, None)
        if self._switch_ports.forget(node):
            self._touched.add(node)
            self._is_unsettled = True
        self.uplinks.forget(node)
        for book in self._books.values():
            book.forget(node)

    def expire(self, before_s: float) -> set[NodeName]:
        """Drop the groups of nodes that are in no dump since before that time; those nodes."""
        late = {node for node, since_s in self._missing_since_s.items() if since_s < before_s}
        for node in late:
            del self._missing_since_s[node], self._paths[node]
        self._is_unsettled |= bool(late)
        return late

    def _put(self, node: NodeName, stated: Stated | None) -> None:
        before = self._stated.get(node)
        if stated is None:
            self._stated.pop(node, None)
            self._is_unsettled |= node in self._paths
        else:
            self._stated[node] = stated
        was, now = (frozenset() if each is None else each.names for each in (before, stated))
        if self._join.update(node, stated) or self._switch_ports.are_seen(was ^ now):
            self._is_unsettled = self._is_stale = True

    def find(self, node: NodeName) -> Path | Reason:
        """Return the node's groups, or why it has none."""
        return self._paths.get(node) or Reason.of(NodeCondition.NOT_IN_FABRIC)

    def settle(self, now_s: float) -> set[NodeName] | None:
        """Work out the groups; the nodes whose groups differ now, None if nothing was stated.

        A node that is in no dump any more keeps its groups until `expire`.
        """
        self._is_unsettled |= self._switch_ports.take_lost(now_s)
        if not self._is_unsettled or not (self.has_cables or self._cut_off):
            return None
        self._is_unsettled = False
        if not self.has_cables:
            self._weak = self._unsure = ()
            self._set_doubts(())
            return set()
        touched = self._count_cables()
        nodes = set(self._cables.nodes.values())
        placed = place(self._cables.wires, self._cables.leaves, nodes)
        names = self._named(placed, nodes)
        innermost = {node: placed.paths[node][-1] for node in nodes & placed.paths.keys()}
        self.uplinks.settle(self._cables.wires, innermost, touched)
        paths = self._named_paths(placed, names, nodes)
        before, self._paths = self._paths, paths | self._missing(nodes, now_s)
        self.findings = tuple(self._find(placed, names, nodes))
        if touched is None:
            wires, around = self._cables.wires, placed.paths.values()
            self._weak = weak_trunks(wires, around)
            self._unsure = unsure_leaves(wires, around, placed.trunks_astray)
        self._set_doubts(self._doubt(placed))
        everyone = before.keys() | self._paths.keys()
        return {node for node in everyone if before.get(node) != self._paths.get(node)}

    def _count_cables(self) -> AbstractSet[NodeName] | None:
        """Bring the cables of hosts up to date; the nodes whose own differ, None for all."""
        touched, self._touched = self._touched, set()
        is_stale, self._is_stale = self._is_stale, False
        if is_stale:
            self._cables = self._counted_anew()
            return None
        for node in touched:
            self._cables.put(node, self._switch_ports.cables(node), self._join.is_node)
        return touched

    def _counted_anew(self) -> HostCables:
        found = HostCables.of(self._dumped, self._join.hosts(), self._join.nodes)
        is_host = cache(self._join.is_node)
        for node in self._switch_ports.nodes():
            found.put(node, self._switch_ports.cables(node), is_host)
        return found

    def _named_paths(
        self,
        placed: HostGroups,
        names: Mapping[SwitchGroup, GroupName],
        nodes: AbstractSet[NodeName],
    ) -> dict[NodeName, Path]:
        """Return the groups of each node by name; equal ones are the same object as before."""
        known = {path: path for path in self._paths.values()}
        of_path: dict[SwitchPath, Path] = {}
        for each in set(placed.paths.values()):
            if all(group in names for group in each):
                path = tuple(_path_group(group, names[group]) for group in each)
                of_path[each] = known.get(path, path)
        return {node: of_path[placed.paths[node]] for node in nodes & placed.paths.keys()}

    def _missing(self, nodes: AbstractSet[NodeName], now_s: float) -> dict[NodeName, Path]:
        """Return the groups of known nodes that had some and are in no dump now."""
        missing = {
            node: path
            for node, path in self._paths.items()
            if node not in nodes and node in self._stated
        }
        since_s = self._missing_since_s
        self._missing_since_s = {node: since_s.get(node, now_s) for node in missing}
        return missing

    def _named(
        self, placed: HostGroups, nodes: AbstractSet[NodeName]
    ) -> dict[SwitchGroup, GroupName]:
        """Return the names of the groups that hold nodes or their cables."""
        members: defaultdict[SwitchGroup, set[NodeName]] = defaultdict(set)
        for node in sorted(nodes):
            for group in placed.paths.get(node, ()):
                members[group].add(node)
            for group in placed.strays.get(node, ()):
                members.setdefault(group, set())
        ordered = sorted(members, key=lambda each: (each.kind, min(each.switches)))
        found: dict[SwitchGroup, GroupName] = {}
        taken: set[GroupName] = set()
        kept = {each: self._book(each.kind).kept(frozenset(members[each])) for each in ordered}
        for group in sorted(ordered, key=lambda each: kept[each] is None):
            name = kept[group] or self._first_name(group)
            if name in taken:
                name = GroupName(f"{name}~{min(group.switches)[-8:]}")
            taken.add(name)
            found[group] = name
            if members[group]:
                self._book(group.kind).record(name, frozenset(members[group]))
        return found

    def _book(self, kind: Kind) -> NameBook:
        if kind not in self._books:
            self._books[kind] = NameBook(kind, self._names)
        return self._books[kind]

    def _first_name(self, group: SwitchGroup) -> GroupName:
        names = (self._cables.wires.switches[each].name for each in group.switches)
        return GroupName(min(names, key=natural_key))

    def _find(
        self,
        placed: HostGroups,
        names: Mapping[SwitchGroup, GroupName],
        nodes: AbstractSet[NodeName],
    ) -> Iterator[FabricFinding]:
        """Yield what does not fit of the nodes' cables, node by node."""
        for guid, several in sorted(self._join.doubled.items()):
            text = f"the adapter {guid} is reported by {listed(several)}; it joins none of them"
            yield FabricFinding(ConflictCondition.ADAPTER_DOUBLED, several, text)
        yield from self._find_unclear()
        doubled = {node for several in self._join.doubled.values() for node in several}
        for node in sorted(self._missing_since_s.keys() - doubled, key=natural_key):
            text = f"no dump of the fabric has an adapter of {node} any more; it keeps its place"
            yield FabricFinding(ConflictCondition.FABRIC_NODE_VANISHED, (node,), text)
        for lost_by, text in self._switch_ports.lost(self._join.is_node):
            yield FabricFinding(ConflictCondition.NEIGHBOUR_LOST, lost_by, text)
        yield from self._find_of_nodes(placed, names, nodes)

    def _find_unclear(self) -> Iterator[FabricFinding]:
        """Yield the nodes whose adapters nobody knows but by a name that leaves a choice."""
        by_nodes: defaultdict[frozenset[NodeName], list[str]] = defaultdict(list)
        for description, meant in sorted(self._join.unclear.items()):
            by_nodes[meant].append(description)
        for meant, words in sorted(by_nodes.items(), key=lambda each: sorted(each[0])):
            nodes = tuple(sorted(meant, key=natural_key))
            copies = max(map(self._join.copies, words))
            whose = f"{copies} adapters each are" if copies > 1 else "adapters of one host are"
            text = f"{whose} described as {listed(words, _SHOWN)}, which may be "
            text += f"{' or '.join(nodes[:_SHOWN])}: they join no node"
            yield FabricFinding(ConflictCondition.ADAPTER_AMBIGUOUS, nodes, text)

    def _find_of_nodes(
        self,
        placed: HostGroups,
        names: Mapping[SwitchGroup, GroupName],
        nodes: AbstractSet[NodeName],
    ) -> Iterator[FabricFinding]:
        strays = placed.strays.keys() & nodes
        adapters: defaultdict[NodeName, list[Guid]] = defaultdict(list)
        for guid, node in self._cables.nodes.items() if strays else ():
            adapters[node].append(guid)
        slow, unclear = self._slow(placed, nodes), self._switch_ports.unclear
        uncabled = self.uplinks.uncabled()
        odd = nodes & (unclear.keys() | strays | self.uplinks.irregular | slow.keys())
        for node in sorted(odd | uncabled.keys(), key=natural_key):
            if node in uncabled:
                text = f"{node}: {listed(uncabled[node], _SHOWN)}"
                yield FabricFinding(ConflictCondition.FABRIC_CABLE_MISSING, (node,), text)
            if node in unclear:
                text = f"{node}: {listed(unclear[node], _SHOWN)}"
                yield FabricFinding(ConflictCondition.SEVERAL_NEIGHBOURS, (node,), text)
            if node in strays:
                yield self._stray(node, adapters[node], placed, names)
            if text := self.uplinks.off_rail(node):
                yield FabricFinding(ConflictCondition.OFF_RAIL, (node,), text)
            if node in slow:
                text = f"{node}: {listed(slow[node], _SHOWN)}"
                yield FabricFinding(ConflictCondition.FABRIC_CABLE_SLOW, (node,), text)

    def _stray(
        self,
        node: NodeName,
        adapters: Iterable[Guid],
        placed: HostGroups,
        names: Mapping[SwitchGroup, GroupName],
    ) -> FabricFinding:
        groups = placed.strays[node]
        own = placed.paths[node][-1] if node in placed.paths else None
        where = [
            f"{self._cables.wires.adapters[guid] or guid} to {self._port(uplink)}"
            for guid in sorted(adapters)
            for uplink in self._cables.wires.uplinks.get(guid, ())
            if own is None or uplink.switch not in own.switches
        ]
        most = "none has most of them" if own is None else f"most are in {names[own]}"
        shown = listed(where, _SHOWN)
        text = f"{node} has cables to leaves of {len(groups)} groups, {most}: {shown}"
        return FabricFinding(ConflictCondition.FABRIC_CABLE_ASTRAY, (node,), text)

    def _port(self, uplink: Uplink) -> str:
        return f"{self._cables.wires.switches[uplink.switch].name} port {uplink.port}"

    def _slow(
        self, placed: HostGroups, nodes: AbstractSet[NodeName]
    ) -> Mapping[NodeName, list[str]]:
        groups = {node: placed.paths[node][-1] for node in nodes & placed.paths.keys()}
        speeds = self.uplinks.speeds()
        return slow_cables(self._cables.wires, self._cables.nodes, speeds, groups)

    def _set_doubts(self, of_switches: Iterable[str]) -> None:
        stays = "; the groups from before the start stay" if self._is_restored else ""
        of_files = (f"{name} is cut off: {lacks}{stays}" for name, lacks in self._cut_off.items())
        texts = chain(of_files, of_switches)
        self.doubts = SourceWarning.of_each(SourceCondition.DOUBTFUL_FABRIC, texts)
        if self._weak:
            text = listed(self._weak, _WEAK_SHOWN)
            self.doubts += SourceWarning.of_each(SourceCondition.WEAK_TRUNKS, (text,))

    def _doubt(self, placed: HostGroups) -> Iterator[str]:
        """Yield what is odd about the switches."""
        if self._unsure:
            yield listed(self._unsure, _WEAK_SHOWN)
        leaves = {each for path in placed.paths.values() for each in path[-1:]}
        lonely = [
            self._cables.wires.switches[leaf].name
            for group in leaves
            for leaf in group.switches
            if not self._cables.wires.trunks.get(leaf)
        ]
        if lonely and len(lonely) < sum(len(group.switches) for group in leaves):
            names = listed(sorted(lonely, key=natural_key), _SHOWN)
            yield f"no cable to another switch, while other leaves have some: {names}"
        if placed.trunks_astray:
            switches = self._cables.wires.switches
            pairs = [f"{switches[a].name} to {switches[b].name}" for a, b in placed.trunks_astray]
            yield f"cables to a switch of another group: {listed(pairs, _SHOWN)}"

    def validate(self) -> None:
        """Check that every adapter is joined by what nodes state now. O(adapters)."""
        require(self._join.validate() == self._join.nodes, "an adapter is joined by old names")
        if not (self._is_unsettled or self._is_stale or self._touched):
            require(self._counted_anew() == self._cables, "a cable is counted as it was")


def _path_group(group: SwitchGroup, name: GroupName) -> PathGroup:
    return PathGroup(group.kind, name, name, FABRIC)
