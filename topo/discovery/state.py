"""The one owner of what is known: events come in through one door, changes come out as values.

Nothing here waits, reads a clock or fails half way: `advance` takes the time and the events, feeds
the indices, rebuilds what they touched and returns what is different for readers. Readers hold
`snapshot`, which is frozen.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from topo.discovery.groups.ladders import Placement, Places
from topo.discovery.groups.machine_join import names_of
from topo.discovery.memory import FORMAT, Memory
from topo.discovery.modes import DiscoverySettings, Mode
from topo.discovery.node.cluster_nodes import ClusterNodes
from topo.discovery.node.health import Subject
from topo.discovery.node.peer_claims import LINK
from topo.discovery.node.record import NodeRecord
from topo.discovery.source_states import SourceStates
from topo.discovery.sources import REPORTED, SOURCES, Source
from topo.discovery.tree import conflicts
from topo.discovery.tree.changes import compare
from topo.discovery.tree.forest import Tree
from topo.model.forest import (
    Change,
    Conflict,
    Forest,
    Node,
    Reason,
    Snapshot,
    Status,
    Unplaced,
)
from topo.model.ids import Generation, NodeName, ServerUuid, natural_key
from topo.model.machine import NodeFacts
from topo.model.observation import (
    CLUSTER_MANAGER,
    CLUSTER_NODES,
    CONFIG_FILE,
    WORKERS,
    ClusterNodeAdded,
    ClusterNodeGone,
    ClusterNodesListed,
    ConfigLoaded,
    DeclaredForest,
    Event,
    ManagerReported,
    NodeRemoved,
    SourceFailed,
    SourceRecovered,
    Ticked,
    WorkerBeat,
    WorkerRefused,
    WorkerReported,
)

NO_WORKER = Reason(
    "no-worker",
    "the cluster lists this node and no worker has reported from it; start the worker there",
)
"""Why a node that only the cluster names is in no group."""


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """What is known of one node beside its place: for `GET /v1/topology?node=`."""

    name: NodeName
    facts: NodeFacts | None
    neighbours: tuple[NodeName, ...]
    seen_at_s: float | None
    stale: bool


class Discovery:
    """Events in, forest out. Not thread-safe: one engine owns it."""

    def __init__(self, settings: DiscoverySettings, table: tuple[Source, ...] = SOURCES) -> None:
        self._settings = settings
        self._table = table
        self._places = Places(settings)
        self._records: dict[NodeName, NodeRecord] = {}
        self._fresh: OrderedDict[NodeName, float] = OrderedDict()
        self._stale: OrderedDict[NodeName, float] = OrderedDict()
        self._dead_links: dict[NodeName, float] = {}
        self._cluster = ClusterNodes()
        self._refusals: dict[tuple[NodeName, str], tuple[float, Conflict]] = {}
        self._declared: DeclaredForest | None = None
        self._sources = SourceStates(table, settings.mode)
        self._tree = Tree()
        self._nodes: dict[NodeName, Node] = {}
        self._unplaced: dict[NodeName, Unplaced] = {}
        self._lacks: dict[NodeName, Reason] = {}
        self._owned: dict[NodeName, tuple[Conflict, ...]] = {}
        self._machine_conflicts: tuple[Conflict, ...] = ()
        self._moved: set[NodeName] = set()
        self._judged: set[NodeName] = set()
        self._machines_replaced = False
        self._unplaced_changed = False
        self._conflicts_changed = False
        self._unjoined_changed = False
        self._restored_age_s: float | None = None
        self.snapshot = Snapshot(Generation(0), Forest(), self._sources.all)

    # -- the door ----------------------------------------------------------------------------

    def advance(self, now_s: float, *events: Event) -> tuple[Change, ...]:
        """Take events that happened by `now_s` (monotonic seconds); what readers see differently.

        An empty answer means that the generation did not move. Cost: the events, plus the groups
        that they touch.
        """
        for event in events:
            self._HANDLERS[type(event)](self, event, now_s)
        self._sources.settle(now_s)
        if self._sources.needed_have_answered:
            self._restored_age_s = None
        self._expire(now_s)
        return self._publish(now_s)

    def _worker_reported(self, event: WorkerReported, now_s: float) -> None:
        facts = event.facts
        node = facts.identity.name
        record = self._records.get(node)
        if record is None:
            record = self._records[node] = NodeRecord.first(facts, self._settings, now_s)
            self._moved.add(node)
        if record.take(facts, self._settings.gpus_per_node):
            self._judged.add(node)
        self._hear(record, now_s)
        self._restate(record, now_s)
        self._sources.answered(WORKERS)

    def _worker_beat(self, event: WorkerBeat, now_s: float) -> None:
        record = self._records.get(event.node)
        if record is None:
            return
        if record.beat():
            self._judged.add(record.name)
            self._restate(record, now_s)
        self._hear(record, now_s)
        self._sources.answered(WORKERS)

    def _worker_refused(self, event: WorkerRefused, now_s: float) -> None:
        conflict = Conflict(
            event.code, (event.node,), event.text, "see the log of the refused worker"
        )
        key = (event.node, event.code)
        known = self._refusals.get(key)
        self._conflicts_changed |= known is None or known[1] != conflict
        self._refusals[key] = (now_s, conflict)

    def _config_loaded(self, event: ConfigLoaded, now_s: float) -> None:
        if not event.declared.roots and self._places.declared:
            text = "it lists nothing any more; what it listed stays until it lists something"
            self._source_failed(SourceFailed(CONFIG_FILE, text), now_s)
            return
        self._declared = event.declared
        self._moved |= self._places.declare(event.declared)
        self._tree.keep(self._places.empty if self._settings.mode is Mode.CONFIG else ())
        if self._settings.mode is Mode.CONFIG:
            self._moved |= self._records.keys()
        self._sources.answered(CONFIG_FILE)

    def _manager_reported(self, event: ManagerReported, now_s: float) -> None:
        self._places.machines.replace(event.topology, now_s)
        self._machines_replaced = True
        self._sources.answered(CLUSTER_MANAGER)

    def _source_failed(self, event: SourceFailed, now_s: float) -> None:
        self._sources.failed(event, now_s)

    def _source_recovered(self, event: SourceRecovered, _now_s: float) -> None:
        self._sources.answered(event.source)

    def _cluster_nodes_listed(self, event: ClusterNodesListed, now_s: float) -> None:
        if not event.nodes and self._cluster.listed:
            text = "it lists no node any more; those that it listed stay until it lists one"
            self._source_failed(SourceFailed(CLUSTER_NODES, text), now_s)
            return
        for node in self._cluster.replace(event.nodes):
            self._listing_changed(node)
        self._sources.answered(CLUSTER_NODES)

    def _cluster_node_added(self, event: ClusterNodeAdded, _now_s: float) -> None:
        if self._cluster.add(event.node):
            self._listing_changed(event.node)
        self._sources.answered(CLUSTER_NODES)

    def _cluster_node_gone(self, event: ClusterNodeGone, _now_s: float) -> None:
        if self._cluster.drop(event.node):
            self._listing_changed(event.node)
        self._sources.answered(CLUSTER_NODES)

    def _listing_changed(self, node: NodeName) -> None:
        """The cluster began or ceased to list a node: it counts where no worker speaks for it."""
        record = self._records.get(node)
        if record is None:
            self._moved.add(node)
            self._cluster.forget(node)
        elif record.stale and self._cluster.has_dropped(node):
            self._forget(node)

    def _node_removed(self, event: NodeRemoved, _now_s: float) -> None:
        if self._cluster.drop(event.node):
            self._moved.add(event.node)
        self._forget(event.node)
        self._cluster.forget(event.node)

    def _ticked(self, _event: Ticked, _now_s: float) -> None:
        """Time passed: `advance` does the rest."""

    _HANDLERS: Mapping[type, Callable[..., None]] = {
        WorkerReported: _worker_reported,
        WorkerBeat: _worker_beat,
        WorkerRefused: _worker_refused,
        ConfigLoaded: _config_loaded,
        ManagerReported: _manager_reported,
        SourceFailed: _source_failed,
        SourceRecovered: _source_recovered,
        ClusterNodesListed: _cluster_nodes_listed,
        ClusterNodeAdded: _cluster_node_added,
        ClusterNodeGone: _cluster_node_gone,
        NodeRemoved: _node_removed,
        Ticked: _ticked,
    }

    # -- what events do to the indices -------------------------------------------------------

    def _hear(self, record: NodeRecord, now_s: float) -> None:
        record.seen_at_s = now_s
        self._fresh[record.name] = now_s
        self._fresh.move_to_end(record.name)
        if record.stale:
            record.stale = False
            self._stale.pop(record.name, None)
            self._judged.add(record.name)

    def _restate(self, record: NodeRecord, now_s: float) -> None:
        """Feed the indices with what the node states of itself now."""
        node, places = record.name, self._places
        places.wiring.state(node, record.local, record.claims)
        places.machines.know(node, names_of(record.identity, record.local))
        self._moved |= places.cliques.state(node, record.domain)
        if len(record.stated) > 1 or node in self._owned:
            self._moved.add(node)
        known = self._nodes.get(node)
        if known is None or (known.gpus, known.gpu_type) != (record.gpus, record.gpu_type):
            self._judged.add(node)
        self._watch_links(record, now_s)

    def _watch_links(self, record: NodeRecord, now_s: float) -> None:
        if record.is_wiring_dead:
            self._dead_links.setdefault(record.name, now_s)
        else:
            self._dead_links.pop(record.name, None)

    def _forget(self, node: NodeName) -> None:
        if self._records.pop(node, None) is None:
            return
        for index in (self._fresh, self._stale, self._dead_links):
            index.pop(node, None)
        self._cluster.forget(node)
        self._moved |= self._places.forget(node)

    def _expire(self, now_s: float) -> None:
        """Time's own events, each index looked at from its oldest end only."""
        settings = self._settings
        for node in _older(self._fresh, now_s - settings.stale_s):
            self._records[node].stale = True
            self._stale[node] = now_s
            self._judged.add(node)
            if self._cluster.has_dropped(node):
                self._forget(node)
        for node in _older(self._stale, now_s - settings.forget_s):
            self._forget(node)
        for node in _older(self._dead_links, now_s - settings.forget_s):
            record = self._records[node]
            record.drop_dead_wiring()
            self._judged.add(node)
            self._restate(record, now_s)
        late = [k for k, (at_s, _) in self._refusals.items() if now_s - at_s > settings.refusal_s]
        for key in late:
            del self._refusals[key]
            self._conflicts_changed = True
        if self._places.machines.expire(now_s - settings.machine_forget_s):
            self._machines_replaced = True

    # -- what readers see --------------------------------------------------------------------

    def _publish(self, now_s: float) -> tuple[Change, ...]:
        self._places.begin()
        self._moved |= self._places.wiring.settle(now_s)
        self._settle_machines()
        for node in sorted(self._judged | self._moved):
            if node in self._moved:
                self._place(node)
            self._judge(node)
        self._moved, self._judged = set(), set()
        before = self.snapshot
        forest = self._forest(before.forest)
        generation = before.generation
        if forest is not before.forest:
            generation = Generation(generation + 1)
        self.snapshot = Snapshot(generation, forest, self._sources.all, self._restored_age_s)
        if forest is before.forest:
            return ()
        return compare(before.forest, forest, generation)

    def _settle_machines(self) -> None:
        """A new answer of the manager may move any node; a new join only those wired to it."""
        rejoined = self._places.machines.settle()
        if self._machines_replaced:
            self._places.recount()
            self._moved |= self._records.keys()
        else:
            self._moved.update(*map(self._places.wiring.component, rejoined))
        if self._machines_replaced or rejoined:
            self._machine_conflicts = tuple(conflicts.of_machines(self._places))
            self._unjoined_changed = self._conflicts_changed = True
        self._machines_replaced = False

    def _knows(self, node: NodeName) -> bool:
        """Whether a worker, the config file or the cluster names this node."""
        return (
            node in self._records or node in self._places.declared or node in self._cluster.listed
        )

    def _place(self, node: NodeName) -> None:
        record = self._records.get(node)
        if not self._knows(node):
            self._tree.place(node, ())
            self._nodes.pop(node, None)
            self._lacks.pop(node, None)
            self._unplaced_changed |= self._unplaced.pop(node, None) is not None
            self._list(node, ())
            return
        placement = self._placement(node, record)
        self._tree.place(node, placement.path)
        if placement.lack is None:
            self._lacks.pop(node, None)
        else:
            self._lacks[node] = placement.lack
        if placement.path:
            self._unplaced_changed |= self._unplaced.pop(node, None) is not None
        self._list(node, conflicts.of_node(self._places, record, self._settings) if record else ())

    def _placement(self, node: NodeName, record: NodeRecord | None) -> Placement:
        """Where a node belongs; one that only the cluster names waits for its worker."""
        waits = self._settings.mode in REPORTED.needed_in and node not in self._places.declared
        if record is None and waits:
            return Placement((), NO_WORKER)
        return self._places.placement(node)

    def _list(self, node: NodeName, owned: tuple[Conflict, ...]) -> None:
        if owned == self._owned.get(node, ()):
            return
        self._conflicts_changed = True
        if owned:
            self._owned[node] = owned
        else:
            del self._owned[node]

    def _judge(self, node: NodeName) -> None:
        record = self._records.get(node)
        if not self._knows(node):
            return
        reasons = tuple(self._reasons(node, record))
        status = Status.NOT_READY if reasons else Status.READY
        gpus, gpu_type = 0, ""
        if record is not None:
            gpus, gpu_type = record.gpus, record.gpu_type
        elif node in self._places.declared:
            gpus = self._settings.gpus_per_node
        judged, before = Node(node, status, reasons, gpus, gpu_type), self._nodes.get(node)
        if judged != before:
            self._nodes[node] = judged
            if before is not None:
                self._tree.touch(node)
        if not self._tree.path(node):
            entry = Unplaced(self._nodes[node], self._lacks[node])
            if entry != self._unplaced.get(node):
                self._unplaced[node] = entry
                self._unplaced_changed = True

    def _reasons(self, node: NodeName, record: NodeRecord | None) -> list[Reason]:
        if record is None and node not in self._places.declared:
            return [NO_WORKER]
        if record is None:
            _, written = self._places.declared[node]
            told = written is Status.NOT_READY
            return [Reason("config", "the config file says NotReady")] if told else []
        reasons = []
        if record.stale:
            text = (
                f"no word from its worker for {self._settings.stale_beats} beats "
                f"({self._settings.stale_s:g} s)"
            )
            reasons.append(Reason("worker-stale", text))
        machine = self._places.machines.machine(node)
        if machine is not None and machine.status is Status.NOT_READY:
            reasons.append(Reason("manager", "the cluster manager says NotReady"))
        lack = self._lacks.get(node)
        if lack is not None and self._tree.path(node):
            reasons.append(Reason(lack.code, f"in no {self._places.innermost}: {lack.text}"))
        for subject, reason in sorted(record.troubles.items()):
            reasons.append(self._named(node, subject, reason))
        return reasons

    def _named(self, node: NodeName, subject: Subject, reason: Reason) -> Reason:
        """A dead link's reason with the node that people know, not only its server UUID."""
        kind, which = subject
        if kind != LINK:
            return reason
        other = self._places.wiring.neighbour_behind(node, ServerUuid(which))
        if other is None:
            return reason
        return Reason(reason.code, f"the link to {other} is down: {reason.text}")

    def _forest(self, before: Forest) -> Forest:
        """The forest now; the same object as before if nothing in it differs."""
        roots = self._tree.build(self._nodes.__getitem__)
        unplaced, listed, unjoined = before.unplaced, before.conflicts, before.unjoined
        if self._unplaced_changed:
            order = sorted(self._unplaced, key=natural_key)
            self._unplaced = {node: self._unplaced[node] for node in order}
            unplaced = tuple(self._unplaced.values())
        if self._conflicts_changed or self._places.wiring.shared_changed:
            listed = conflicts.in_order(self._all_conflicts())
        if self._unjoined_changed:
            unjoined = conflicts.unjoined(self._places)
        self._unplaced_changed = self._conflicts_changed = self._unjoined_changed = False
        after = Forest(roots, unplaced, listed, unjoined)
        return before if after == before else after

    def _all_conflicts(self) -> Iterator[Conflict]:
        yield from self._machine_conflicts
        yield from conflicts.of_wiring(self._places.wiring)
        for owned in self._owned.values():
            yield from owned
        yield from (conflict for _, conflict in self._refusals.values())

    # -- for readers and for restarts --------------------------------------------------------

    @property
    def known(self) -> tuple[NodeName, ...]:
        """Every node that must be in the forest or in `unplaced`, in natural order."""
        declared, listed = self._places.declared.keys(), self._cluster.listed
        return tuple(sorted(declared | self._records.keys() | listed, key=natural_key))

    def detail(self, node: NodeName) -> NodeDetail | None:
        """What is known of a node beside its place; None for a node never heard of."""
        record = self._records.get(node)
        if record is None:
            known = self._knows(node)
            return NodeDetail(node, None, (), None, stale=False) if known else None
        return NodeDetail(
            node,
            record.facts,
            self._places.wiring.neighbours(node),
            record.seen_at_s,
            record.stale,
        )

    def facts(self, node: NodeName) -> NodeFacts | None:
        """The facts of the node's last reading, or None."""
        record = self._records.get(node)
        return record.facts if record is not None else None

    def memory(self) -> Memory:
        """What a state file keeps; O(nodes)."""
        topology = self._places.machines.topology
        return Memory(
            format=FORMAT,
            generation=self.snapshot.generation,
            nodes=tuple(r.memory() for r in self._records.values()),
            links=tuple(self._places.wiring.edges()),
            names=self._places.names,
            topology=topology if topology.machines else None,
            declared=self._declared,
            cluster_nodes=tuple(sorted(self._cluster.listed)),
        )

    def restore(self, memory: Memory, age_s: float, now_s: float) -> tuple[Change, ...]:
        """Take up what an earlier process knew `age_s` ago, before any event.

        The generation goes on from there with a step, since this process cannot prove that what it
        shows is the same to the last reason. Sources count as silent until they speak.
        """
        settings = self._settings
        self._places = Places(settings, memory.names)
        with self._places.wiring.established(memory.links, now_s - settings.incumbent_s):
            for node in memory.nodes:
                record = NodeRecord.remembered(node, settings, now_s)
                self._records[record.name] = record
                self._fresh[record.name] = now_s
                self._moved.add(record.name)
                self._restate(record, now_s)
            self._moved |= self._places.wiring.settle(now_s)
        self._cluster = ClusterNodes(memory.cluster_nodes)
        self._moved |= self._cluster.listed
        if memory.declared is not None:
            self._config_loaded(ConfigLoaded(memory.declared), now_s)
        if memory.topology is not None:
            self._manager_reported(ManagerReported(memory.topology), now_s)
        self._sources = SourceStates(self._table, settings.mode)
        self._restored_age_s = age_s
        self.snapshot = Snapshot(memory.generation, Forest())
        return self._publish(now_s)


def _older(index: "dict[NodeName, float]", limit_s: float) -> list[NodeName]:
    """Take out the entries at or before a time, from an index in the order of its times."""
    late: list[NodeName] = []
    for node, at_s in index.items():
        if at_s > limit_s:
            break
        late.append(node)
    for node in late:
        del index[node]
    return late
