"""The one owner of what is known: `advance` takes events and gives back changes, all as values.

Nothing here waits, reads a clock or fails half way: `advance` takes the time and the events and
works through the steps of a generation, in this order:

1. take the events: workers, the config file, the manager, the cluster (each marks what it touches);
2. expire what is late;
3. settle wiring: links and components (`groups.wiring`);
4. settle machines: which machine is which node (`groups.machine_join`);
5. place every marked node (`groups.tiers`), and find the conflicts that it owns (`tree.conflicts`);
6. judge every marked node (`tree.node_status`);
7. build the forest (`tree.forest`), the other lists, and compare (`tree.changes`): readers hold
   the frozen `snapshot`.

An error of one node is that node's where its report is taken (1, `report_intake`), what it lacks is
dropped (2), and it is placed and judged (5 and 6, `node_judge`). Whatever another step raises may
have left half changed what all nodes share: it ends the process.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain

from topo.discovery.groups.fabrics import Fabrics
from topo.discovery.groups.labelled import doubts
from topo.discovery.groups.membership import Membership
from topo.discovery.manager import contract
from topo.discovery.marks import Marks
from topo.discovery.memory import Memory, membership_of, memory_of
from topo.discovery.modes import DiscoverySettings, Mode
from topo.discovery.node.cluster_nodes import ClusterNodes
from topo.discovery.node.record import JudgedGpu, NodeRecord
from topo.discovery.node.workers import Workers
from topo.discovery.node_detail import NodeDetail, node_detail
from topo.discovery.node_judge import NodeJudge
from topo.discovery.report_intake import ReportIntake
from topo.discovery.sources import SOURCES, Source, SourceStates
from topo.discovery.suspicion.findings import SuspicionFindings
from topo.discovery.suspicion.machine import Suspicions
from topo.discovery.tree import conflicts, node_status
from topo.discovery.tree.changes import compare
from topo.discovery.tree.conflicts import Topic
from topo.discovery.tree.gpu_counts import GroupGpuCounts
from topo.discovery.tree.placed import PlacedNodes
from topo.discovery.tree.source_comparison import SourceComparison
from topo.model import observation as said
from topo.model.conditions.sources import SourceCondition
from topo.model.errors import require
from topo.model.forest import Change, Forest, Node, Snapshot, SourceWarning
from topo.model.ids import Generation, NodeName, natural_key
from topo.model.isolation import ObjectError
from topo.model.machine import NodeFacts


class Discovery:
    """Events in, forest out. Not thread-safe: one engine owns it.

    `sources` are the rows of the table; they say which sources the mode listens to.
    """

    def __init__(self, settings: DiscoverySettings, sources: tuple[Source, ...] = SOURCES) -> None:
        self._settings = settings
        self._table = sources
        self._fabrics = Fabrics(settings)
        self._sources = SourceStates(sources, settings.mode, settings.precedence)
        self._workers = Workers(settings)
        self._cluster = ClusterNodes()
        self._membership = Membership(settings)
        self._placed = PlacedNodes()
        self._gpu_counts = GroupGpuCounts()
        self._conflicts = conflicts.ConflictList()
        self._comparison = SourceComparison(settings, self._placed.paths)
        self._marks = Marks()
        self._unjoined = Forest().unjoined
        self.suspicions = Suspicions()
        self._suspicion_findings = SuspicionFindings()
        self._restored_at_s: float | None = None
        self._unusable: set[int] = set()
        """The identities of the events of a step that raised an error."""
        self._judge = self._new_judge()
        self._intake = ReportIntake(
            settings=settings,
            workers=self._workers,
            marks=lambda: self._marks,
            has_error=lambda node: self._judge.has_error(node),  # noqa: PLW0108 - it is replaced
            note_heard=self._note_report,
            feed=self._update,
        )
        self.snapshot = Snapshot(Generation(0), Forest(), self._sources.all)

    def _new_judge(self) -> NodeJudge:
        return NodeJudge(
            settings=self._settings,
            fabrics=self._fabrics,
            membership=self._membership,
            cluster=self._cluster,
            placed=self._placed,
            gpu_counts=self._gpu_counts,
        )

    # -- step 1: take the events -------------------------------------------------------------

    def advance(self, now_s: float, *events: said.Event) -> tuple[Change, ...]:
        """Take events that happened by `now_s` (monotonic seconds); what readers see differently.

        An empty answer means that the generation did not move. Cost: the events, plus the groups
        that they touch.
        """
        self._unusable.clear()
        for event in events:
            self._HANDLERS[type(event)](self, event, now_s)
        usable = [each for each in events if id(each) not in self._unusable]
        self._sources.settle(now_s)
        if self._sources.needed_have_answered:
            self._restored_at_s = None
        self._expire(now_s)
        differing = self.suspicions.advance(now_s, *usable)
        self._marks.judged |= differing & self._placed.nodes.keys()
        return self._next_generation(now_s)

    def _worker_reported(self, event: said.WorkerReported, now_s: float) -> None:
        if not self._intake.report(event.facts, now_s):
            self._unusable.add(id(event))

    def _worker_beat(self, event: said.WorkerBeat, now_s: float) -> None:
        self._intake.beat(event.node, now_s)

    def _worker_refused(self, event: said.WorkerRefused, now_s: float) -> None:
        self._conflicts.refuse(event, now_s)

    def _config_loaded(self, event: said.ConfigLoaded, now_s: float) -> None:
        declared = self._membership.declared
        # An empty file is more likely a slip of an editor or a mount than the wish to drop all
        # groups.
        if not event.declared.roots and declared.places:
            text = "it lists nothing any more; what it listed stays until it lists something"
            fix = "write the groups into it again, or restart the master without its state file"
            self._sources.note_failure(said.SourceFailed(said.CONFIG_FILE, text, fix), now_s)
            return
        self._marks.moved |= declared.replace(event.declared)
        if self._settings.mode is Mode.CONFIG:
            self._placed.keep_groups(declared.empty_groups)
        if said.CONFIG_FILE in self._settings.stated:
            self._marks.moved |= self._workers.records.keys() | self._cluster.listed
        self._sources.note_answer(said.CONFIG_FILE)

    def _fabric_loaded(self, event: said.FabricLoaded, _now_s: float) -> None:
        self._membership.fabric.replace(dict(event.dumps))
        self._sources.note_answer(said.FABRIC)

    def _manager_reported(self, event: said.ManagerReported, now_s: float) -> None:
        self._membership.machines.replace(event.topology, now_s)
        self._sources.note_answer(said.CLUSTER_MANAGER)
        doubted = contract.doubts(event.topology)
        warnings = SourceWarning.of_each(SourceCondition.DOUBTFUL_INVENTORY, doubted)
        self._sources.set_warnings(said.SourceWarned(said.CLUSTER_MANAGER, warnings), now_s)

    def _cluster_nodes_listed(self, event: said.ClusterNodesListed, now_s: float) -> None:
        # A cluster does not lose all of its nodes at once; an API server that restarts may say so.
        if not event.nodes and self._cluster.listed:
            text = "it lists no node any more; those that it listed stay until it lists one"
            self._sources.note_failure(said.SourceFailed(said.CLUSTER_NODES, text), now_s)
            return
        was_complete = self._cluster.is_complete
        changed = self._cluster.replace(event.nodes)
        if not was_complete:
            declared = self._membership.declared.places.keys()
            self._marks.judged |= (self._workers.records.keys() | declared) - self._cluster.listed
        self._cluster_changed(changed, now_s)
        self._sources.note_answer(said.CLUSTER_NODES)

    def _cluster_nodes_told(self, event: said.ClusterNodesTold, now_s: float) -> None:
        self._cluster_changed((n for each in event.nodes for n in self._cluster.put(each)), now_s)

    def _cluster_node_seen(self, event: said.ClusterNodeSeen, now_s: float) -> None:
        self._cluster_changed(self._cluster.put(event.node), now_s)
        self._sources.note_answer(said.CLUSTER_NODES)

    def _cluster_node_gone(self, event: said.ClusterNodeGone, now_s: float) -> None:
        self._cluster_changed(self._cluster.drop(event.node), now_s)
        self._sources.note_answer(said.CLUSTER_NODES)

    def _source_failed(self, event: said.SourceFailed, now_s: float) -> None:
        self._sources.note_failure(event, now_s)

    def _source_recovered(self, event: said.SourceRecovered, _now_s: float) -> None:
        self._sources.note_answer(event.source)

    def _source_warned(self, event: said.SourceWarned, now_s: float) -> None:
        self._sources.set_warnings(event, now_s)

    def _node_removed(self, event: said.NodeRemoved, now_s: float) -> None:
        self._marks.moved |= self._cluster.drop(event.node)
        self._marks.moved |= self._membership.update_labels(event.node, None, now_s)
        self._forget(event.node)

    def _stood_still(self, _event: said.StoodStill, now_s: float) -> None:
        self._workers.expect_all(now_s)

    def _pass_over(self, _event: said.Event, _now_s: float) -> None:
        """Do nothing: `advance` uses the time, and the suspicions take what is about them."""

    _HANDLERS: Mapping[type, Callable[..., None]] = {
        said.WorkerReported: _worker_reported,
        said.WorkerBeat: _worker_beat,
        said.WorkerRefused: _worker_refused,
        said.ConfigLoaded: _config_loaded,
        said.FabricLoaded: _fabric_loaded,
        said.ManagerReported: _manager_reported,
        said.ClusterNodesListed: _cluster_nodes_listed,
        said.ClusterNodesTold: _cluster_nodes_told,
        said.ClusterNodeSeen: _cluster_node_seen,
        said.ClusterNodeGone: _cluster_node_gone,
        said.SourceFailed: _source_failed,
        said.SourceRecovered: _source_recovered,
        said.SourceWarned: _source_warned,
        said.NodeRemoved: _node_removed,
        said.StoodStill: _stood_still,
        said.LinksCounted: _pass_over,
        said.OperatorDecided: _pass_over,
        said.Ticked: _pass_over,
    }

    def _note_report(self, record: NodeRecord, now_s: float) -> None:
        if self._workers.note_report(record, now_s):
            self._marks.judged.add(record.name)
        self._sources.note_answer(*self._membership.sources_of_reports)

    def _update(self, record: NodeRecord, now_s: float) -> None:
        """Feed the indices with what the node states of itself now."""
        node = record.name
        self._marks.moved |= self._membership.update(record, self._cluster.find(node))
        if len(record.stated) > 1 or record.slow_links or self._conflicts.has(node):
            self._marks.moved.add(node)
        if not node_status.is_shown(record, self._placed.nodes.get(node)):
            self._marks.judged.add(node)
        self._workers.watch_losses(record, now_s)

    def _cluster_changed(self, nodes: Iterable[NodeName], now_s: float) -> None:
        """Mark the nodes that the cluster lists, drops or states differently."""
        for node in nodes:
            listed = self._cluster.find(node)
            record = self._workers.records.get(node)
            self._marks.moved |= self._membership.update_labels(node, listed, now_s)
            if record is None:
                self._membership.update_unreported(node, listed)
                self._marks.moved.add(node)
                self._cluster.forget(node)
            elif record.stale and self._cluster.has_dropped(node):
                self._forget(node)
            else:
                self._marks.judged.add(node)
                self._update(record, now_s)

    def _forget(self, node: NodeName) -> None:
        self._judge.forget(node)
        self._cluster.forget(node)
        self.suspicions.forget(node)
        if self._workers.forget(node):
            self._marks.moved |= self._membership.forget(node, self._cluster.find(node))

    # -- step 2: expire what is late ---------------------------------------------------------

    def _expire(self, now_s: float) -> None:
        settings, workers = self._settings, self._workers
        for record in workers.mark_stale(now_s):
            self._marks.judged.add(record.name)
            if self._cluster.has_dropped(record.name):
                self._forget(record.name)
        for node in workers.take_long_silent(now_s):
            self._forget(node)
        for record, gone in workers.take_long_lost(now_s):
            self._intake.drop(record, gone, now_s)
        self._marks.moved |= self._membership.expire_labels(now_s - settings.machine_forget_s)
        self._marks.moved |= self._membership.fabric.expire(now_s - settings.forget_s)
        self._conflicts.expire(now_s - settings.refusal_s)
        self._membership.machines.expire(now_s - settings.machine_forget_s)

    # -- steps 3 to 7: settle, place, judge, build, compare ----------------------------------

    def _next_generation(self, now_s: float) -> tuple[Change, ...]:
        marks, self._marks = self._marks, Marks()
        self._membership.begin_generation()
        marks.moved |= self._membership.wiring.settle(now_s)
        self._settle_labels(marks)
        self._settle_machines(marks)
        self._settle_fabric(marks, now_s)
        moved = sorted(marks.moved)  # names of groups depend on the order of placing
        for node in moved:
            self._place(node, self._workers.records.get(node))
        if (found := self._comparison.settle(self._membership)) is not None:
            self._conflicts.put(Topic.SOURCES, found)
        judged = [*moved, *(marks.judged - marks.moved)]
        records = self._workers.records
        recounted = (
            self._gpu_counts.put(node, self._judge.count_gpus(node, records.get(node)))
            for node in judged
        )
        for node in (*judged, *set[NodeName]().union(*recounted).difference(judged)):
            self._show(node, self._workers.records.get(node))
        return self._publish(self._forest())

    def _settle_labels(self, marks: Marks) -> None:
        labelled = self._membership.labelled
        if not labelled.is_unsettled:
            return
        marks.moved |= self._membership.settle_labels(is_complete=self._cluster.is_complete)
        self._conflicts.put(Topic.LABELS, conflicts.of_labels(self._membership))
        found = SourceWarning.of_each(SourceCondition.SEVERAL_FAMILIES, doubts(labelled))
        self._sources.set_reading(said.CLUSTER_NODES, labelled.detail, found)

    def _settle_machines(self, marks: Marks) -> None:
        placeable = chain(self._workers.records, self._membership.declared.places)
        moved = self._membership.settle_machines(placeable)
        if moved is not None:
            marks.moved |= moved
            self._unjoined = conflicts.unjoined(self._membership)
            self._conflicts.put(Topic.MACHINES, conflicts.of_machines(self._membership))

    def _settle_fabric(self, marks: Marks, now_s: float) -> None:
        moved, fabric = self._membership.settle_fabric(now_s), self._membership.fabric
        if moved is not None:
            marks.moved |= moved
            marks.judged |= self._workers.recable(fabric.uplinks.take_recabled())
            self._conflicts.put(Topic.FABRIC, conflicts.of_fabric(self._membership))
            self._sources.set_reading(said.FABRIC, fabric.detail, fabric.doubts)

    def _place(self, node: NodeName, record: NodeRecord | None) -> None:
        if record is None and not self._judge.is_named(node):
            self._judge.forget(node)
            self._placed.remove(node)
            self._comparison.put(self._membership, node, ())
            self._conflicts.set_node(node, ())
            return
        self._placed.place(node, self._judge.place(node, record))
        self._comparison.put(self._membership, node, self._placed.path(node))
        self._conflicts.set_node(node, self._judge.find_conflicts(node, record))

    def _show(self, node: NodeName, record: NodeRecord | None) -> None:
        if record is not None or self._judge.is_named(node):
            self._placed.show(self._judge.judge(node, record), self.suspicions.of(node))

    def _forest(self) -> Forest:
        """Return the forest now; the same object as before if nothing in it differs."""
        before, placed = self.snapshot.forest, self._placed
        roots, confirmed = placed.build(), self._comparison.confirmed
        uplinks = self._membership.fabric.uplinks
        told = self._suspicion_findings.of(self.suspicions, roots, placed, uplinks)
        self._conflicts.put(Topic.SUSPICIONS, told)
        listed = self._conflicts.listed(self._membership.wiring)
        after = Forest(roots, placed.unplaced, listed, self._unjoined, confirmed)
        return before if after == before else after

    def _publish(self, forest: Forest) -> tuple[Change, ...]:
        before = self.snapshot
        same = forest is before.forest
        generation = before.generation if same else Generation(before.generation + 1)
        self.snapshot = Snapshot(generation, forest, self._sources.all, self._restored_at_s)
        return () if same else compare(before.forest, forest, generation)

    @property
    def report_errors(self) -> Mapping[NodeName, ObjectError]:
        """The nodes of which the last report could not be used, and why. O(such nodes)."""
        return {**self.suspicions.errors, **self._judge.errors, **self._workers.errors}

    # -- for readers and for restarts --------------------------------------------------------

    @property
    def known(self) -> tuple[NodeName, ...]:
        """Every node that must be in the forest or in `unplaced`, in natural order."""
        declared = self._membership.declared.places.keys()
        everyone = declared | self._workers.records.keys() | self._cluster.listed
        return tuple(sorted(everyone, key=natural_key))

    def shown(self, node: NodeName) -> Node | None:
        """Return a node as readers see it; None for an unknown one. O(1)."""
        return self._placed.nodes.get(node)

    def detail(self, node: NodeName) -> NodeDetail | None:
        """Return what is known of a node without its place; None for an unknown node."""
        record = self._workers.records.get(node)
        if record is None and not self._judge.is_named(node):
            return None
        stated = self._comparison.stated(self._membership, node)
        return node_detail(node, record, self._membership, stated)

    def facts(self, node: NodeName) -> NodeFacts | None:
        """Return the facts of the node's last reading, or None."""
        record = self._workers.records.get(node)
        return record.facts if record is not None else None

    def judged_gpus(self, node: NodeName) -> tuple[JudgedGpu, ...] | None:
        """Return the GPUs of the node's last reading; None before its first one."""
        record = self._workers.records.get(node)
        return record.judged_gpus() if record is not None else None

    def all_facts(self) -> dict[NodeName, NodeFacts]:
        """Return the facts of every node that has spoken since the start; O(nodes)."""
        records = self._workers.records.values()
        return {record.name: record.facts for record in records if record.facts is not None}

    def persistent_state(self) -> Memory:
        """Return what a state file keeps; O(nodes)."""
        nodes = tuple(record.persistent_state() for record in self._workers.records.values())
        generation, cluster = self.snapshot.generation, self._cluster.statements
        suspicions = self.suspicions.persistent_state()
        return memory_of(generation, nodes, cluster, self._membership, suspicions=suspicions)

    def fresh(self) -> "Discovery":
        """Return one with the same settings and sources that knows nothing yet."""
        return Discovery(self._settings, self._table)

    def restore(self, memory: Memory, age_s: float | None, now_s: float) -> tuple[Change, ...]:
        """Take up what another process knew `age_s` ago, before any event; None: it knows it still.

        The generation goes on from there with a step, since this process cannot prove that what it
        shows is the same to the last reason. Sources count as silent until they speak.
        """
        settings, moved = self._settings, self._marks.moved
        self._membership = membership_of(memory, settings)
        self._cluster = ClusterNodes(memory.cluster_nodes)
        self._judge = self._new_judge()
        for listed in memory.cluster_nodes:
            self._membership.update_labels(listed.name, listed, now_s)
            self._membership.update_unreported(listed.name, listed)
        wiring = self._membership.wiring
        records = [self._workers.remembered(node, now_s) for node in memory.nodes]
        self._membership.nvlink.restore({record.name: record.domain for record in records})
        with wiring.established(memory.links, now_s - settings.incumbent_s):
            for record in records:
                self._intake.restore(record, now_s)
            moved |= wiring.settle(now_s)
        moved.update(self._cluster.listed)
        if memory.declared is not None:
            self._config_loaded(said.ConfigLoaded(memory.declared), now_s)
        if memory.topology is not None:
            self._manager_reported(said.ManagerReported(memory.topology), now_s)
        if memory.suspicions is not None:
            boots = {node.identity.name: node.identity.boot_id for node in memory.nodes}
            self.suspicions.restore(memory.suspicions, boots, now_s - (age_s or 0.0))
            moved |= self.suspicions.advance(now_s) & self._workers.records.keys()
        self._sources = SourceStates(self._table, settings.mode, settings.precedence)
        self._restored_at_s = None if age_s is None else now_s - age_s
        self.snapshot = Snapshot(memory.generation, Forest())
        return self._next_generation(now_s)

    def validate(self) -> None:
        """Raise `BrokenInvariantError` where kept values differ from recomputed ones.

        No node is lost or stands twice; every place, value and conflict is current; the indices
        agree. O(nodes) and more: for tests, and to check a running state.
        """
        self._workers.validate()
        self.suspicions.validate()
        placed, uplinks = self._placed, self._membership.fabric.uplinks
        self._suspicion_findings.validate(self.suspicions, placed.build(), placed, uplinks)
        self._cluster.validate(self._workers.records.keys())
        self._membership.validate()
        records = {node: self._workers.records.get(node) for node in self.known}
        for node, record in records.items():
            if record is not None:
                self._membership.validate_names(record, self._cluster.find(node))
        positions = {node: self._judge.position(node, record) for node, record in records.items()}
        self._placed.validate(positions)
        self._comparison.validate(self._membership, positions)
        self._gpu_counts.validate(
            {node: self._judge.gpu_place(node, record) for node, record in records.items()}
        )
        for node, record in records.items():
            against, other = self.suspicions.of(node), positions[node].elsewhere
            judged = replace(self._judge.judged(node, record), suspicion=against, elsewhere=other)
            require(self._placed.nodes[node] == judged, f"{node} is judged of old")
        self._conflicts.validate(
            {node: self._judge.conflicts_of(record) for node, record in records.items()},
            self._membership,
        )
        shown = [node.name for node in self.snapshot.forest.nodes()]
        require(sorted(shown) == sorted(records), "a known node is not shown exactly once")
        unjoined = conflicts.unjoined(self._membership)
        require(self._unjoined == unjoined, "the unjoined machines are out of date")
        require(self.snapshot.forest == self._forest(), "the forest shown is out of date")
