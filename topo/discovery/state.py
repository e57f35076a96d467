"""The one owner of what is known: events come in through one door, changes come out as values.

Nothing here waits, reads a clock or fails half way: `advance` takes the time and the events, feeds
the indices, rebuilds what they touched and returns what is different for readers. Readers hold
`snapshot`, which is frozen.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from topo.discovery import conflicts
from topo.discovery.changes import compare
from topo.discovery.forest import Tree
from topo.discovery.health import Subject
from topo.discovery.join import names_of
from topo.discovery.links import LINK
from topo.discovery.memory import FORMAT, Memory
from topo.discovery.modes import DiscoverySettings, Mode
from topo.discovery.placing import Places
from topo.discovery.record import NodeRecord
from topo.model.forest import (
    Change,
    Conflict,
    Forest,
    Node,
    Reason,
    Snapshot,
    SourceState,
    Status,
    Unplaced,
)
from topo.model.ids import Generation, NodeName, ServerUuid, SourceName, natural_key
from topo.model.machine import NodeFacts
from topo.model.observation import (
    CLUSTER_MANAGER,
    CONFIG_FILE,
    WORKERS,
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

    def __init__(self, settings: DiscoverySettings) -> None:
        self._settings = settings
        self._places = Places(settings)
        self._records: dict[NodeName, NodeRecord] = {}
        self._fresh: OrderedDict[NodeName, float] = OrderedDict()
        self._stale: OrderedDict[NodeName, float] = OrderedDict()
        self._dead_links: dict[NodeName, float] = {}
        self._refusals: dict[tuple[NodeName, str, str], tuple[float, Conflict]] = {}
        self._declared: DeclaredForest | None = None
        self._sources: dict[SourceName, SourceState] = _sources(settings.mode)
        self._heard: set[SourceName] = set()
        self._tree = Tree()
        self._nodes: dict[NodeName, Node] = {}
        self._unplaced: dict[NodeName, Unplaced] = {}
        self._owned: dict[NodeName, tuple[Conflict, ...]] = {}
        self._machine_conflicts: tuple[Conflict, ...] = ()
        self._moved: set[NodeName] = set()
        self._judged: set[NodeName] = set()
        self._machines_replaced = False
        self._machines_rejoined = False
        self._lists_changed = False
        self._restored_age_s: float | None = None
        self.snapshot = Snapshot(Generation(0), Forest(), tuple(self._sources.values()))

    # -- the door ----------------------------------------------------------------------------

    def advance(self, now_s: float, *events: Event) -> tuple[Change, ...]:
        """Take events that happened by `now_s` (monotonic seconds); what readers see differently.

        An empty answer means that the generation did not move. Cost: the events, plus the groups
        that they touch.
        """
        self._heard = set()
        for event in events:
            self._HANDLERS[type(event)](self, event, now_s)
        for source in self._heard:
            self._sources[source] = SourceState(source, now_s)
            self._restored_age_s = None
        self._expire(now_s)
        return self._publish()

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
        self._heard.add(WORKERS)

    def _worker_beat(self, event: WorkerBeat, now_s: float) -> None:
        record = self._records.get(event.node)
        if record is None:
            return
        if record.beat():
            self._judged.add(record.name)
            self._restate(record, now_s)
        self._hear(record, now_s)
        self._heard.add(WORKERS)

    def _worker_refused(self, event: WorkerRefused, now_s: float) -> None:
        conflict = Conflict(
            event.code, (event.node,), event.text, "see the log of the refused worker"
        )
        key = (event.node, event.code, event.claimant)
        known = self._refusals.get(key)
        self._lists_changed |= known is None or known[1] != conflict
        self._refusals[key] = (now_s, conflict)

    def _config_loaded(self, event: ConfigLoaded, _now_s: float) -> None:
        self._declared = event.declared
        self._moved |= self._places.declare(event.declared)
        if self._settings.mode is Mode.CONFIG:
            self._moved |= self._records.keys()
        self._heard.add(CONFIG_FILE)

    def _manager_reported(self, event: ManagerReported, now_s: float) -> None:
        self._places.machines.replace(event.topology, now_s)
        self._machines_replaced = True
        self._heard.add(CLUSTER_MANAGER)

    def _source_failed(self, event: SourceFailed, now_s: float) -> None:
        self._heard.discard(event.source)
        state = self._sources.get(event.source, SourceState(event.source, None))
        since_s = now_s if state.failing_since_s is None else state.failing_since_s
        self._sources[event.source] = SourceState(
            event.source, state.last_good_at_s, since_s, event.refusal
        )

    def _source_recovered(self, event: SourceRecovered, _now_s: float) -> None:
        self._heard.add(event.source)

    def _node_removed(self, event: NodeRemoved, now_s: float) -> None:
        self._forget(event.node, now_s)

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
        node = record.name
        places = self._places
        self._moved |= places.wiring.state(node, record.local, record.claims, now_s)
        domain = record.domains[0] if len(record.domains) == 1 else None
        self._moved |= places.cliques.state(node, domain)
        if (len(record.domains) > 1) != any(
            c.code == "gpus-disagree" for c in self._owned.get(node, ())
        ):
            self._moved.add(node)
        self._rejoin(places.machines.know(node, names_of(record.identity, record.local)))
        if self._nodes.get(node) is None or self._nodes[node].gpus != record.gpus:
            self._judged.add(node)
        self._watch_links(record, now_s)

    def _watch_links(self, record: NodeRecord, now_s: float) -> None:
        if record.dead_claims():
            self._dead_links.setdefault(record.name, now_s)
        else:
            self._dead_links.pop(record.name, None)

    def _rejoin(self, nodes: set[NodeName]) -> None:
        """Nodes that got or lost a machine, and those wired to them, may stand elsewhere now."""
        self._machines_rejoined |= bool(nodes)
        for node in nodes:
            self._moved |= self._places.wiring.component(node)

    def _forget(self, node: NodeName, now_s: float) -> None:
        if self._records.pop(node, None) is None:
            return
        for index in (self._fresh, self._stale, self._dead_links):
            index.pop(node, None)
        self._moved |= self._places.wiring.forget(node, now_s)
        self._moved |= self._places.cliques.state(node, None)
        self._rejoin(self._places.machines.know(node, ()))
        self._moved.add(node)

    def _expire(self, now_s: float) -> None:
        """Time's own events, each index looked at from its oldest end only."""
        settings = self._settings
        for node in _older(self._fresh, now_s - settings.stale_s):
            self._records[node].stale = True
            self._stale[node] = now_s
            self._judged.add(node)
        for node in _older(self._stale, now_s - settings.forget_s):
            self._forget(node, now_s)
        for node in _older(self._dead_links, now_s - settings.forget_s):
            record = self._records[node]
            for uuid in record.dead_claims():
                record.drop_claim(uuid)
            self._judged.add(node)
            self._restate(record, now_s)
        late = [k for k, (at_s, _) in self._refusals.items() if now_s - at_s > settings.refusal_s]
        for key in late:
            del self._refusals[key]
            self._lists_changed = True
        if self._places.machines.expire(now_s - settings.machine_forget_s):
            self._machines_replaced = True

    # -- what readers see --------------------------------------------------------------------

    def _publish(self) -> tuple[Change, ...]:
        self._places.begin()
        self._settle_machines()
        for node in self._moved:
            self._place(node)
        for node in self._judged | self._moved:
            self._judge(node)
        self._moved, self._judged = set(), set()
        before = self.snapshot
        forest = self._forest(before.forest)
        generation = before.generation
        if forest is not before.forest:
            generation = Generation(generation + 1)
        self.snapshot = Snapshot(
            generation, forest, tuple(self._sources.values()), self._restored_age_s
        )
        if forest is before.forest:
            return ()
        return compare(before.forest, forest, generation)

    def _settle_machines(self) -> None:
        """A new answer of the manager may move any node; a new join only changes the lists."""
        if self._machines_replaced:
            self._places.recount()
            self._moved |= self._records.keys()
        if self._machines_replaced or self._machines_rejoined:
            self._machine_conflicts = tuple(conflicts.of_machines(self._places))
            self._lists_changed = True
        self._machines_replaced = self._machines_rejoined = False

    def _place(self, node: NodeName) -> None:
        known = node in self._records or node in self._places.declared
        placement = self._places.placement(node) if known else ()
        path = () if isinstance(placement, Reason) else placement
        self._tree.place(node, path)
        self._unplaced.pop(node, None)
        if isinstance(placement, Reason):
            self._unplaced[node] = Unplaced(_BLANK, placement)
        if not known:
            self._nodes.pop(node, None)
        self._lists_changed = True
        record = self._records.get(node)
        owned = conflicts.of_node(self._places, record, self._settings) if record else ()
        if owned:
            self._owned[node] = owned
        else:
            self._owned.pop(node, None)

    def _judge(self, node: NodeName) -> None:
        record = self._records.get(node)
        if record is None and node not in self._places.declared:
            return
        reasons = tuple(self._reasons(node, record))
        status = Status.NOT_READY if reasons else Status.READY
        gpus = self._settings.gpus_per_node if record is None else record.gpus
        judged = Node(node, status, reasons, gpus)
        if judged != self._nodes.get(node):
            self._nodes[node] = judged
            self._tree.touch(node)
        unplaced = self._unplaced.get(node)
        if unplaced is not None and unplaced.node is not self._nodes[node]:
            self._unplaced[node] = Unplaced(self._nodes[node], unplaced.reason)
            self._lists_changed = True

    def _reasons(self, node: NodeName, record: NodeRecord | None) -> list[Reason]:
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
        if self._lists_changed:
            self._lists_changed = False
            order = sorted(self._unplaced, key=natural_key)
            unplaced = tuple(self._unplaced[n] for n in order)
            listed = conflicts.in_order(
                [
                    *self._machine_conflicts,
                    *(c for owned in self._owned.values() for c in owned),
                    *(c for _, c in self._refusals.values()),
                ]
            )
            unjoined = conflicts.unjoined(self._places)
        after = Forest(roots, unplaced, listed, unjoined)
        return before if after == before else after

    # -- for readers and for restarts --------------------------------------------------------

    @property
    def known(self) -> tuple[NodeName, ...]:
        """Every node that must be in the forest or in `unplaced`, in natural order."""
        return tuple(sorted(self._records.keys() | self._places.declared.keys(), key=natural_key))

    def detail(self, node: NodeName) -> NodeDetail | None:
        """What is known of a node beside its place; None for a node never heard of."""
        record = self._records.get(node)
        if record is None:
            declared = node in self._places.declared
            return NodeDetail(node, None, (), None, stale=False) if declared else None
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
            links=tuple(edge for edge, _ in self._places.wiring.edges()),
            names=self._places.names,
            topology=topology if topology.machines else None,
            declared=self._declared,
        )

    def restore(self, memory: Memory, age_s: float, now_s: float) -> tuple[Change, ...]:
        """Take up what an earlier process knew `age_s` ago, before any event.

        The generation goes on from there with a step, since this process cannot prove that what it
        shows is the same to the last reason. Sources count as silent until they speak.
        """
        settings = self._settings
        self._places = Places(settings, memory.names)
        for node in memory.nodes:
            record = NodeRecord.remembered(node, settings, now_s)
            self._records[record.name] = record
            self._fresh[record.name] = now_s
            self._moved.add(record.name)
            self._restate(record, now_s)
        self._places.wiring.establish(dict.fromkeys(memory.links, now_s - settings.incumbent_s))
        if memory.declared is not None:
            self._config_loaded(ConfigLoaded(memory.declared), now_s)
        if memory.topology is not None:
            self._manager_reported(ManagerReported(memory.topology), now_s)
        self._sources = _sources(settings.mode)
        self._restored_age_s = age_s
        self.snapshot = Snapshot(memory.generation, Forest())
        return self._publish()


_BLANK = Node(NodeName(""), Status.NOT_READY)
"""Stands in an `Unplaced` between placing and judging, within one `advance`."""


def _sources(mode: Mode) -> dict[SourceName, SourceState]:
    """The sources that a mode waits for, none of which has spoken yet."""
    wanted: dict[SourceName, Any] = {WORKERS: True}
    if mode is Mode.CONFIG:
        wanted = {CONFIG_FILE: True, WORKERS: True}
    if mode.asks_manager:
        wanted[CLUSTER_MANAGER] = True
    return {source: SourceState(source, None) for source in wanted}


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
