"""The statements of all sources about which nodes belong together: an index for each kind.

`tiers` reads them to say where a node belongs. Here is what several indices have to do together:
take a node's statements, forget a node, settle what was stated.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import takewhile
from types import MappingProxyType

from topo.discovery.groups.declared import Declared
from topo.discovery.groups.fabric.groups import FabricGroups
from topo.discovery.groups.fabric.uplinks import NodeUplink, seen_uplinks
from topo.discovery.groups.labelled import Labelled
from topo.discovery.groups.machine_join import Machines, Named, names_of
from topo.discovery.groups.managed import Chain, without_dragonflies
from topo.discovery.groups.naming import Members, NameBook, NameRecord
from topo.discovery.groups.nvlink_domains import NvlinkDomains
from topo.discovery.groups.super_pods import SuperPodFinding, SuperPods, seat_of
from topo.discovery.groups.wiring import Wiring
from topo.discovery.modes import DiscoverySettings
from topo.discovery.node.record import NodeRecord
from topo.model.conditions.tree import ConflictCondition, NodeCondition
from topo.model.errors import require
from topo.model.fabric import normalized_guid
from topo.model.forest import Path, PathGroup, Reason
from topo.model.ids import DRAGONFLY, SUPER_POD, GroupName, NodeName, SourceName
from topo.model.machine import NodeFacts
from topo.model.observation import (
    CLUSTER_NODES,
    CONFIG_FILE,
    FABRIC,
    WORKERS,
    ListedNode,
)

_HOSTS = frozenset({"node_name", "hostname"})
"""The names of a node that drivers of adapters call its host by."""


class Membership:
    """The indices. Mutable; owned by the discovery state.

    `declared`: the config file. `wiring`: links that workers see. `nvlink`: domains that GPUs
    state. `machines`, `managed`: the manager's machines joined to nodes, and its groups.
    `super_pods`: the nodes' seats in them. `labelled`: labels of the cluster's nodes, of which
    `label_family` was followed before.
    `fabric`: dumps of a switched fabric, which gave `fabric_paths` before.
    """

    def __init__(
        self,
        settings: DiscoverySettings,
        names: Collection[NameRecord] = (),
        label_family: str = "",
        fabric_paths: Mapping[NodeName, Path] = MappingProxyType({}),
    ) -> None:
        self.declared = Declared()
        self.labelled = Labelled(settings.labels, label_family)
        self.fabric = FabricGroups(names, fabric_paths)
        self._follows_fabric = FABRIC in settings.stated
        self.wiring = Wiring(settings.incumbent_s)
        self._node_number = settings.node_number
        self._stand_above_domains = bool(settings.precedence) or self.labelled.is_used
        """Whether groups that somebody writes down stand above whole NVLink domains."""
        self._dragonfly_names = NameBook(DRAGONFLY, names)
        self.nvlink = NvlinkDomains(names)
        self.super_pods = SuperPods()
        self.machines = Machines(settings.join_keys)
        self.begin_generation()

    @property
    def names(self) -> tuple[NameRecord, ...]:
        """All name records, for the state file."""
        return (*self._dragonfly_names.records, *self.nvlink.records, *self.fabric.names)

    @property
    def sources_of_reports(self) -> tuple[SourceName, ...]:
        """The sources that answer by reports of workers."""
        return (WORKERS, FABRIC) if self.fabric.sees_switches else (WORKERS,)

    def begin_generation(self) -> None:
        """Forget what was worked out for the generation before."""
        self._chains: dict[Members, set[Chain]] = {}
        self._dragonflies: dict[Members, Path] = {}
        self._least: dict[Members, NodeName] = {}
        self._above: dict[tuple[SourceName, Members], Path | None] = {}
        self._pods: dict[Members, SuperPodFinding | None] = {}

    def update(self, record: NodeRecord, listed: ListedNode | None = None) -> AbstractSet[NodeName]:
        """Take what a node states of itself; the nodes whose NVLink groups may differ now.

        `listed` is what the cluster says of it, whose names for the node count like its own. Links
        and machines follow when they are settled.
        """
        node = record.name
        self.wiring.update(node, record.local, record.claims)
        self.machines.update_names(node, _names(record, listed))
        self._update_fabric(node, record, listed)
        pod = self.nvlink.super_pod(node)
        is_reseated = self.super_pods.put(node, seat_of(record.facts))
        if not (self._stand_above_domains or pod is not None or is_reseated):
            return self.nvlink.update(node, record.domain)
        before = self.nvlink.members(node)
        moved = self.nvlink.update(node, record.domain)
        touched = moved
        if moved and self._stand_above_domains:
            # The groups above follow a whole domain: if it changes, its other nodes may move, too.
            touched = moved | before | self.nvlink.members(node)
        if moved or is_reseated:
            touched = touched | self._judged_anew(node, {pod, self.nvlink.super_pod(node)})
        return touched

    def _judged_anew(self, node: NodeName, pods: Iterable[GroupName | None]) -> set[NodeName]:
        """Return the nodes of these super pods that differ since `node` joined, left or moved."""
        found: set[NodeName] = set()
        for pod in filter(None, pods):
            found |= self.super_pods.judged_anew(pod, self.nvlink.members_of(pod), node)
        return found

    def update_unreported(self, node: NodeName, listed: ListedNode | None) -> None:
        """Take what the cluster says of a node without a worker, None where it lists it no longer.

        Who moves by that follows when the fabric is settled.
        """
        if listed is None:
            self.fabric.forget(node)
        else:
            self._update_fabric(node, None, listed)

    def _update_fabric(
        self, node: NodeName, record: NodeRecord | None, listed: ListedNode | None
    ) -> None:
        if not self._follows_fabric:
            return
        facts = None if record is None else record.facts
        nics = () if facts is None else facts.nics
        guids = (normalized_guid(nic.node_guid) for nic in nics if not nic.virtual)
        names = {node} if record is None else {node, record.identity.hostname}
        names |= {name for key, name in (() if listed is None else listed.names) if key in _HOSTS}
        self.fabric.update(node, filter(None, guids), (each.lower() for each in names if each))
        if record is not None and facts is not None:
            self.fabric.update_cables(node, facts, record.seen_at_s)

    def uplinks(self, node: NodeName, facts: NodeFacts | None) -> tuple[NodeUplink, ...]:
        """Return the cables of a node to switches. O(adapters of the node)."""
        if self._follows_fabric:
            return self.fabric.uplinks.of(node)
        return () if facts is None else seen_uplinks(node, facts)

    def settle_fabric(self, now_s: float) -> AbstractSet[NodeName] | None:
        """Work out the groups of the fabric; the nodes that may move, None if none was restated."""
        moved = self.fabric.settle(now_s)
        return None if moved is None else self._around(moved)

    def update_labels(
        self, node: NodeName, listed: ListedNode | None, now_s: float
    ) -> AbstractSet[NodeName]:
        """Take a node's labels, None where the cluster lists it no longer; the nodes whose place
        may differ now.
        """
        labels = None if listed is None else listed.labels
        return self._around({node} if self.labelled.update(node, labels, now_s) else ())

    def expire_labels(self, before_s: float) -> AbstractSet[NodeName]:
        """Drop labels that vanished before that time; the nodes whose place may differ now."""
        return self._around(self.labelled.expire(before_s))

    def settle_labels(self, *, is_complete: bool) -> AbstractSet[NodeName]:
        """Choose the family of labels to follow; the nodes whose place may differ now."""
        return self._around(self.labelled.settle(is_complete=is_complete))

    def _around(self, nodes: Iterable[NodeName]) -> set[NodeName]:
        """Return these nodes and those that stand together with them by what workers see."""
        wired, in_domain = set[NodeName](), set[NodeName]()
        for node in nodes:
            # A member of a group whose members are all there brings nobody new.
            if node not in wired:
                wired |= self.wiring.component(node)
            if node not in in_domain:
                in_domain |= self.nvlink.members(node)
        return wired | in_domain

    def forget(self, node: NodeName, listed: ListedNode | None) -> AbstractSet[NodeName]:
        """Drop all that a node stated; the nodes whose place may differ now, before settling.

        `listed` is what the cluster still says of it.
        """
        self.wiring.update(node, None, ())
        self.machines.update_names(node, ())
        self._dragonfly_names.forget(node)
        self.update_unreported(node, listed)
        domain = self.nvlink.members(node) if self._stand_above_domains else frozenset()
        pod = self.nvlink.super_pod(node)
        self.super_pods.put(node, None)
        touched = {*self.nvlink.forget(node), *domain, node}
        return touched | self._judged_anew(node, (pod,))

    def declares(self, node: NodeName) -> bool:
        """Return whether the config file names this node."""
        return node in self.declared.places

    def settle_machines(self, placeable: Iterable[NodeName]) -> set[NodeName] | None:
        """Join machines to nodes; return the nodes that may have moved, None if no join changed.

        Another list of machines may move any node; another join only those around the node.
        """
        listed_anew = self.machines.listed_anew
        rejoined = self.machines.settle()
        if listed_anew:
            return set(placeable)
        if not rejoined:
            return None
        return self._around(rejoined)

    def dragonfly(self, component: Members) -> Path:
        """Return the path of nodes wired together; a complete dragonfly leaves its name on
        record.
        """
        if component not in self._dragonflies:
            name, number = self._dragonfly_name(component), self._node_number
            group = PathGroup(
                DRAGONFLY, name, name, WORKERS, expected=number, exact=True, generated=True
            )
            self._dragonflies[component] = (group,)
        return self._dragonflies[component]

    def statement(self, source: SourceName, node: NodeName) -> Path | Reason | None:
        """Return the groups that labels or the config file name for a node, or why they name none.

        None where no label is read.
        """
        if source == CLUSTER_NODES:
            return self.labelled.find(node)
        if source == FABRIC:
            return self.fabric.find(node)
        place = self.declared.places.get(node)
        if place is None:
            return Reason.of(NodeCondition.NOT_IN_CONFIG)
        return place.path or Reason.of(NodeCondition.NO_GROUP_IN_CONFIG)

    def root_names(self, source: SourceName) -> AbstractSet[GroupName]:
        """Return the names of the outermost groups of the fabric, the config file, the manager."""
        if source == FABRIC:
            return self.fabric.root_names
        holder = self.declared if source == CONFIG_FILE else self.machines.groups
        return holder.root_names

    def above(self, source: SourceName, node: NodeName, members: Members) -> Path | Reason | None:
        """Return the groups on which a source's statements of all members agree.

        Members without a usable statement follow the rest. The reason of the node where none has
        any; None where the source is not listened to. O(members) for the first of them.
        """
        key = source, members
        if key not in self._above:
            self._above[key] = _common([self.statement(source, each) for each in sorted(members)])
        path = self._above[key]
        return path if path is not None else self.statement(source, node)

    def super_pod(self, node: NodeName, name: GroupName) -> PathGroup:
        """Return the super pod of a node; one that cannot be a single one is in trouble."""
        found = self.super_pod_finding(node, name)
        is_wrong = found is not None and found.code is ConflictCondition.SUPER_POD_DOUBLED
        troubles = (Reason(found.code, found.text),) if found is not None and is_wrong else ()
        return PathGroup(SUPER_POD, name, name, WORKERS, troubles=troubles)

    def super_pod_finding(self, node: NodeName, name: GroupName) -> SuperPodFinding | None:
        """Return what does not fit of the nodes of a node's super pod. O(1) but for the first."""
        members = self.nvlink.members(node)
        if members not in self._pods:
            self._pods[members] = self.super_pods.judge(name, members)
        return self._pods[members]

    def least(self, component: Members) -> NodeName:
        """Return the member under which a component's conflicts are listed."""
        if component not in self._least:
            self._least[component] = min(component)
        return self._least[component]

    def _dragonfly_name(self, component: Members) -> GroupName:
        names, seed = self._dragonfly_names, "\n".join(sorted(component))
        if len(component) > self._node_number:
            # A wiring fault must not take over the name of the group that it swallowed.
            return names.default(seed, component)
        name = names.name(seed, component)
        if len(component) == self._node_number:
            names.record(name, component)
        return name

    def chains(self, component: Members) -> set[Chain]:
        """Return the different places that the manager gives to the members of a component."""
        if component not in self._chains:
            chains = {self.machines.chain(node) for node in component}
            self._chains[component] = {without_dragonflies(chain) for chain in chains} - {()}
        return self._chains[component]

    def validate_names(self, record: NodeRecord, listed: ListedNode | None) -> None:
        """Check that machines are joined by the names that the node and the cluster state now."""
        kept = self.machines.names(record.name)
        require(kept == _names(record, listed), f"{record.name} is joined by names of old")
        seat = self.super_pods.seat(record.name)
        require(seat == seat_of(record.facts), f"{record.name} has a seat of old")

    def validate(self) -> None:
        """Check that every index agrees with what was stated."""
        self.wiring.validate()
        self.nvlink.validate()
        self.machines.validate()
        self.labelled.validate()
        self.fabric.validate()


def _common(found: Iterable[Path | Reason | None]) -> Path | None:
    """Return the longest path that begins every path; None without any."""
    paths = [each for each in found if isinstance(each, tuple)]
    if not paths:
        return None
    levels = takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))
    return tuple(level[0] for level in levels)


def _names(record: NodeRecord, listed: ListedNode | None) -> tuple[Named, ...]:
    return names_of(record.identity, record.local, () if listed is None else listed.names)
