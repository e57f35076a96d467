"""Where each node belongs: the tiers of every mode, and the source of each tier.

A *tier* turns a node into rungs of its path, or into the reason why it has none. A *ladder* is a
list of tiers, outermost first; a mode has one or more ladders and a node stands on the first that
carries it. A new mode is a new entry in `LADDERS`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from topo.discovery.groups.machine_join import Machines
from topo.discovery.groups.naming import NameBook, NameRecord
from topo.discovery.groups.nvlink_domains import Cliques
from topo.discovery.groups.wiring import Members, Wiring
from topo.discovery.modes import DiscoverySettings, Mode
from topo.discovery.tree.forest import Path, Rung
from topo.model.forest import Reason, Status
from topo.model.ids import (
    DRAGONFLY,
    NVLINK_CLIQUE,
    NVLINK_DOMAIN,
    GroupName,
    Kind,
    NodeName,
)
from topo.model.observation import (
    CLUSTER_MANAGER,
    CONFIG_FILE,
    WORKERS,
    DeclaredForest,
    DeclaredGroup,
    DeclaredNode,
    ManagedGroup,
)

Step = Path | Reason
"""What one tier answers."""


class Placement(NamedTuple):
    """Where a node belongs. `lack` is why it has no path, or why its innermost tier is missing."""

    path: Path
    lack: Reason | None = None


class Places:
    """The sources' statements about membership, each in its own index.

    Mutable; owned by the discovery state, which feeds it and asks `placement`.
    """

    def __init__(self, settings: DiscoverySettings, names: Iterable[NameRecord] = ()) -> None:
        records = tuple(names)
        self._settings = settings
        self._ladders = LADDERS[settings.mode]
        self._settled: dict[Members, Path] = {}
        self._least: dict[Members, NodeName] = {}
        self._around: dict[Members, set[tuple[ManagedGroup, ...]]] = {}
        self._dragonflies = _book(DRAGONFLY, records)
        self._books = (_book(NVLINK_DOMAIN, records), _book(NVLINK_CLIQUE, records))
        self._declared: dict[NodeName, tuple[Path, Status | None]] = {}
        self._census: Mapping[str, int] = {}
        self._unique: dict[str, GroupName] = {}
        self._rungs: dict[str, Path] = {}
        self.empty: tuple[Path, ...] = ()
        self.wiring = Wiring(settings.incumbent_s)
        self.cliques = Cliques(*self._books)
        self.machines = Machines(settings.join_keys)

    @property
    def names(self) -> tuple[NameRecord, ...]:
        """All name records, for the state file."""
        return tuple(r for b in (self._dragonflies, *self._books) for r in b.records)

    def forget(self, node: NodeName) -> set[NodeName]:
        """Drop all that a node stated; the nodes whose place may differ now, before `settle`."""
        self.wiring.state(node, None, ())
        self.machines.know(node, ())
        moved = self.cliques.state(node, None)
        for book in (self._dragonflies, *self._books):
            book.forget(node)
        return {*moved, node}

    @property
    def declared(self) -> Mapping[NodeName, tuple[Path, Status | None]]:
        """The nodes of the config file: path (empty: in no group) and status as written."""
        return self._declared

    def declare(self, forest: DeclaredForest) -> set[NodeName]:
        """Take the config file; the nodes whose place or status differs now."""
        before = self._declared
        self._declared = dict(_flatten(forest.roots, ()))
        self.empty = tuple(_empty_groups(forest.roots, ()))
        return {n for n in before.keys() | self._declared.keys() if self._differs(n, before)}

    def _differs(
        self, node: NodeName, before: Mapping[NodeName, tuple[Path, Status | None]]
    ) -> bool:
        return before.get(node) != self._declared.get(node)

    def recount(self) -> None:
        """Count the manager's machines and name its groups anew, after `machines` changed."""
        self._rungs = {}
        self._census = self.machines.census()
        self._unique = _unique_names(self.machines.topology.groups, self.machines.held)

    @property
    def innermost(self) -> Kind:
        """What the groups closest to the nodes are called in this mode."""
        return DRAGONFLY if self._settings.mode is not Mode.NVLINK else NVLINK_CLIQUE

    def begin(self) -> None:
        """Forget what was worked out for the generation before; called once per generation."""
        self._settled, self._least, self._around = {}, {}, {}

    def least(self, component: Members) -> NodeName:
        """The member by which a component's findings are listed."""
        if component not in self._least:
            self._least[component] = min(component)
        return self._least[component]

    def _settle(self, component: Members) -> Path:
        """The rung of a wired component; a complete one leaves its name on record."""
        if component not in self._settled:
            name = self._name(component)
            number = self._settings.node_number
            rung = Rung(DRAGONFLY, name, name, WORKERS, expected=number, exact=True)
            self._settled[component] = (rung,)
        return self._settled[component]

    def _name(self, component: Members) -> GroupName:
        seed = "\n".join(sorted(component))
        if len(component) > self._settings.node_number:
            return self._dragonflies.default(seed, component)
        name = self._dragonflies.name(seed, component)
        if len(component) == self._settings.node_number:
            self._dragonflies.record(name, component)
        return name

    def placement(self, node: NodeName) -> Placement:
        """The node's path, and what it lacks."""
        lack = Reason("unknown", "no source says where this node belongs")
        for ladder in self._ladders:
            path: Path = ()
            missing: Reason | None = None
            for tier in ladder:
                step = tier(self, node)
                missing = step if isinstance(step, Reason) else None
                if not isinstance(step, Reason):
                    path += step
            if path:
                return Placement(path, missing)
            lack = missing or lack
        return Placement((), lack)

    def configured(self, node: NodeName) -> Step:
        """Tier: the groups written in the config file."""
        if node not in self._declared:
            return Reason("not-in-config", "the config file does not list this node")
        path, _ = self._declared[node]
        return path or Reason("no-group-in-config", "the config file lists this node in no group")

    def wired(self, node: NodeName) -> Step:
        """Tier: the dragonfly of confirmed peer links."""
        component = self.wiring.component(node)
        if len(component) < 2:
            return Reason("no-peer", self._why_alone(node))
        return self._settle(component)

    def _why_alone(self, node: NodeName) -> str:
        suspects = self.wiring.suspects(node)
        if not suspects:
            return "its worker sees no peer"
        suspect = suspects[0]
        if not suspect.owners:
            return f"it sees server {suspect.uuid}, which no worker has reported"
        return f"{', '.join(suspect.owners)} does not confirm the link from its side"

    def managed(self, node: NodeName) -> Step:
        """Tier: the cluster manager's groups, without the dragonflies inside, which workers see.

        A node that the manager does not list follows its dragonfly, if the rest of it agrees: a
        dragonfly lies inside one group of the tier above.
        """
        chain = self.machines.chain(node) or self._followed(node)
        rungs = self._managed_rungs(chain) if chain else ()
        return rungs or Reason("not-managed", self._why_unmanaged(node))

    def _why_unmanaged(self, node: NodeName) -> str:
        if self.machines.machine(node) is None:
            return "the cluster manager lists no machine for this node"
        return "the cluster manager puts this machine in no group"

    def _managed_rungs(self, chain: tuple[ManagedGroup, ...]) -> Path:
        innermost = chain[-1].id
        if innermost not in self._rungs:
            self._rungs[innermost] = tuple(
                self._managed_rung(g) for g in chain if g.kind != DRAGONFLY
            )
        return self._rungs[innermost]

    def _followed(self, node: NodeName) -> tuple[ManagedGroup, ...]:
        chains = self.chains(self.wiring.component(node))
        return next(iter(chains)) if len(chains) == 1 else ()

    def chains(self, component: Members) -> set[tuple[ManagedGroup, ...]]:
        """The different places that the manager gives to the members of a component."""
        if component not in self._around:
            found = {self.machines.chain(n) for n in component}
            outer = {tuple(g for g in c if g.kind != DRAGONFLY) for c in found}
            self._around[component] = outer - {()}
        return self._around[component]

    def _managed_rung(self, group: ManagedGroup) -> Rung:
        return Rung(
            kind=group.kind,
            key=group.id,
            name=self._unique.get(group.id, group.name),
            source=CLUSTER_MANAGER,
            expected=self._census.get(group.id),
        )

    def fabric(self, node: NodeName) -> Step:
        """Tier: the NVLink cluster and the clique that the node's GPUs state."""
        names = self.cliques.names(node)
        if names is None:
            return Reason("no-fabric", "its GPUs belong to no multi-node NVLink domain")
        outer, inner = names
        return (
            Rung(NVLINK_DOMAIN, outer, outer, WORKERS),
            Rung(NVLINK_CLIQUE, inner, inner, WORKERS),
        )


Tier = Callable[[Places, NodeName], Step]

LADDERS: Mapping[Mode, tuple[tuple[Tier, ...], ...]] = {
    Mode.CONFIG: ((Places.configured,),),
    Mode.DRAGONFLY: ((Places.wired,),),
    Mode.SWITCHBOX: ((Places.managed, Places.wired),),
    Mode.NVLINK: ((Places.fabric,),),
    Mode.AUTO: ((Places.fabric,), (Places.wired,)),
}


def _book(kind: Kind, records: tuple[NameRecord, ...]) -> NameBook:
    return NameBook(kind, (r for r in records if r.kind == kind))


def _flatten(
    children: Iterable[DeclaredGroup | DeclaredNode], above: Path
) -> Iterable[tuple[NodeName, tuple[Path, Status | None]]]:
    for child in children:
        if isinstance(child, DeclaredNode):
            yield child.name, (above, child.status)
            continue
        yield from _flatten(child.children, (*above, _declared_rung(child)))


def _declared_rung(group: DeclaredGroup) -> Rung:
    """A declared group is complete as written; one written NotReady without cause stays so."""
    idle = group.status is Status.NOT_READY and not _has_cause(group)
    told = (Reason("config", "the config file says NotReady"),) if idle else ()
    return Rung(group.kind, group.name, group.name, CONFIG_FILE, troubles=told)


def _has_cause(group: DeclaredGroup) -> bool:
    return any(c.status is Status.NOT_READY for c in group.children)


def _unique_names(groups: Iterable[ManagedGroup], held: frozenset[str]) -> dict[str, GroupName]:
    """Names by group id; siblings of one name get their id behind it, so that none merge.

    A group that is only held for missing machines gives way to one that the manager states.
    """
    siblings: dict[tuple[str | None, GroupName], list[ManagedGroup]] = {}
    for group in groups:
        siblings.setdefault((group.parent_id, group.name), []).append(group)
    names: dict[str, GroupName] = {}
    for same in siblings.values():
        plain = [g for g in same if g.id not in held] if len(same) > 1 else same
        for group in same:
            alone = plain == [group]
            names[group.id] = group.name if alone else GroupName(f"{group.name}~{group.id}")
    return names


def _empty_groups(children: Iterable[DeclaredGroup | DeclaredNode], above: Path) -> Iterator[Path]:
    for child in children:
        if isinstance(child, DeclaredGroup):
            path = (*above, _declared_rung(child))
            if not child.children:
                yield path
            yield from _empty_groups(child.children, path)
