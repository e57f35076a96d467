"""What is kept incrementally equals what is worked out anew, after any sequence of events.

Six nodes with two ports each, cabled, pulled and swapped at will; clones, reboots, managers that
rename and move, config files that come and go, restarts through the state file, in all modes.
"""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pydantic import TypeAdapter

from tests.builders import discovery, facts, server, shape
from tests.discovery.labels import RACKS, labels_of
from topo.discovery.label_families import AUTO, UNLABELLED, LabelSource
from topo.discovery.memory import Memory
from topo.discovery.modes import WITHOUT_WORKERS, Mode
from topo.discovery.state import Discovery
from topo.model.conditions.tree import ConflictCondition
from topo.model.ids import DRAGONFLY, GroupName, Kind, NodeName, ServerUuid, SourceName
from topo.model.machine import GpuFabric, LinkCount, NodeFacts, Peer, ServerPeers
from topo.model.observation import (
    CLUSTER_MANAGER,
    CLUSTER_NODES,
    CONFIG_FILE,
    ClusterNodeGone,
    ClusterNodeSeen,
    ClusterNodesListed,
    ConfigLoaded,
    DeclaredForest,
    DeclaredGroup,
    DeclaredNode,
    Event,
    LinksCounted,
    ListedNode,
    ManagedGroup,
    ManagedMachine,
    ManagedTopology,
    ManagerReported,
    NodeRemoved,
    OperatorAct,
    OperatorDecided,
    Ticked,
    WorkerBeat,
    WorkerRefused,
    WorkerReported,
)

WRITING = (CLUSTER_MANAGER, CLUSTER_NODES, CONFIG_FILE)
OWN = {Mode.CONFIG: CONFIG_FILE, Mode.SWITCHBOX: CLUSTER_MANAGER, Mode.LABELS: CLUSTER_NODES}
"""The source that an order of each mode has to name."""
CLIQUE = {"nvidia.com/gpu.clique": "u.1"}
OLD = {"network.topology.nvidia.com/spine": "s", "network.topology.nvidia.com/block": "b"}
NEW = {"fabric.topograph.run/tier-0": "t"}
NAMES = [f"n{i}" for i in range(6)]
MEMORY = TypeAdapter(Memory)

node = st.sampled_from(NAMES)
slot = st.sampled_from([1, 2])
listed_nodes = st.builds(
    ListedNode,
    name=node.map(NodeName),
    not_ready=st.sampled_from(["", "", "its kubelet is silent"]),
    names=st.sampled_from([(), (("server_uuid", server("n0")),), (("server_uuid", "other"),)]),
    labels=st.sampled_from(
        [
            *(labels_of(place) for place in ("-", "w1", "w1/r1", "w1/r2", "w2/r1", "/r1")),
            *(labels_of(CLIQUE | more) for more in ({}, OLD, NEW)),
            labels_of(OLD),
            labels_of(NEW),
        ]
    ),
)
domains = st.sampled_from([(), ("c1",), ("c2",), ("c1", "c2")])


class Consistency(RuleBasedStateMachine):
    """Events in any order; after each, every index is compared with its definition."""

    state: Discovery

    @initialize(
        mode=st.sampled_from(list(Mode)),
        number=st.sampled_from([2, 4]),
        labels=st.sampled_from([UNLABELLED, RACKS, AUTO]),
        precedence=st.lists(st.sampled_from(WRITING), unique=True),
    )
    def start(
        self, mode: Mode, number: int, labels: LabelSource, precedence: list[SourceName]
    ) -> None:
        """A master of any mode that has heard nothing, with any order of its sources."""
        self.mode, self.number, self.labels, self.now_s = mode, number, labels, 0.0
        is_managed = CLUSTER_MANAGER in precedence and mode in WITHOUT_WORKERS
        lacks_own = mode in OWN and OWN[mode] not in precedence
        self.precedence = () if is_managed or lacks_own else tuple(precedence)
        self.state = self._fresh()
        self.cables: dict[tuple[str, int], str] = {}
        self.boots = dict.fromkeys(NAMES, 1)
        self.local: dict[str, ServerUuid] = {n: server(n) for n in NAMES}

    def _fresh(self) -> Discovery:
        return discovery(
            self.mode,
            node_number=self.number,
            forget_s=200.0,
            machine_forget_s=100.0,
            labels=self.labels,
            precedence=self.precedence,
        )

    def _advance(self, *events: Event) -> None:
        before = self.state.snapshot
        self.state.advance(self.now_s, *events)
        after = self.state.snapshot
        same = after.forest == before.forest
        assert after.generation == before.generation + (0 if same else 1)

    def _facts(self, name: str, stated: tuple[str, ...]) -> NodeFacts:
        seen = facts(name, boot=f"boot-{self.boots[name]}")
        remotes = tuple(
            Peer(s, self.local[self.cables[name, s]]) for s in (1, 2) if (name, s) in self.cables
        )
        fabrics = tuple(
            GpuFabric(i, "Completed", "Success", stated[i % len(stated)], 1)
            for i in range(8 if stated else 0)
        )
        return replace(seen, peers=ServerPeers(self.local[name], remotes), fabrics=fabrics)

    @rule(a=node, b=node, x=slot, y=slot)
    def cable(self, a: str, b: str, x: int, y: int) -> None:
        """One end here, one there; what was plugged there before hangs loose."""
        if a != b:
            self.cables[a, x], self.cables[b, y] = b, a

    @rule(a=node, x=slot)
    def pull(self, a: str, x: int) -> None:
        """One end is out."""
        self.cables.pop((a, x), None)

    @rule(a=node)
    def swap_slots(self, a: str) -> None:
        """The driver shows the two ports the other way round."""
        ends = {s: self.cables.pop((a, s)) for s in (1, 2) if (a, s) in self.cables}
        self.cables.update({(a, 3 - s): other for s, other in ends.items()})

    @rule(a=node, b=node)
    def clone(self, a: str, b: str) -> None:
        """The board of `a` states the UUID of `b` (its own again for a = b)."""
        self.local[a] = server(b)

    @rule(a=node)
    def reboot(self, a: str) -> None:
        """Another boot id with the next report."""
        self.boots[a] += 1

    @rule(a=node, times=st.integers(1, 3), stated=domains)
    def worker_reports(self, a: str, times: int, stated: tuple[str, ...]) -> None:
        """The same reading once or several times."""
        for _ in range(times):
            self._advance(WorkerReported(self._facts(a, stated)))

    @rule(a=node, act=st.sampled_from(OperatorAct), link=st.sampled_from(["", "slot 1", "x"]))
    def operator_decides(self, a: str, act: OperatorAct, link: str) -> None:
        """Of any node, also of one that nobody knows yet."""
        self._advance(OperatorDecided(NodeName(a), act, link, "why"))

    @rule(a=node, number=st.integers(1, 600))
    def link_recovers(self, a: str, number: int) -> None:
        """The worker reads a counter again: it has risen, or a reset made it lower."""
        self._advance(LinksCounted(NodeName(a), (LinkCount("slot 1", "recovery", number),)))

    @rule(order=st.permutations(NAMES), at_once=st.booleans())
    def all_report(self, order: list[str], at_once: bool) -> None:  # noqa: FBT001
        """Every node, in any order, in one step or in six."""
        events = [WorkerReported(self._facts(a, ())) for a in order]
        for step in [events] if at_once else [[event] for event in events]:
            self._advance(*step)

    @rule(a=node, seconds=st.sampled_from([0.0, 10.0, 31.0, 61.0, 101.0, 201.0]))
    def time_passes(self, a: str, seconds: float) -> None:
        """Only one worker speaks meanwhile."""
        self.now_s += seconds
        self._advance(WorkerBeat(NodeName(a)), Ticked())

    @rule(a=node)
    def node_leaves(self, a: str) -> None:
        """Kubernetes deletes it; another worker's report of it was refused as well."""
        self._advance(WorkerRefused(NodeName(a), ConflictCondition.FOREIGN_REPORT, "a lie"))
        self._advance(NodeRemoved(NodeName(a)))

    @rule(nodes=st.lists(listed_nodes, unique_by=lambda one: one.name))
    def cluster_lists(self, nodes: list[ListedNode]) -> None:
        """Any list, an empty one among them."""
        self._advance(ClusterNodesListed(tuple(nodes)))

    @rule(one=listed_nodes, comes=st.booleans())
    def cluster_changes(self, one: ListedNode, comes: bool) -> None:  # noqa: FBT001
        """One node more or less, or another word of it."""
        self._advance(ClusterNodeSeen(one) if comes else ClusterNodeGone(one.name))

    @rule(
        places=st.dictionaries(node, st.sampled_from(["g1", "g2", "g3", "f1"])),
        name=st.sampled_from(["box", "crate"]),
        key=st.sampled_from(["node_name", "server_uuid"]),
        twin=st.booleans(),
    )
    def manager_answers(self, places: dict[str, str], name: str, key: str, twin: bool) -> None:  # noqa: FBT001
        """Any inventory: renamed, nested, with dragonflies of its own, with twins."""
        groups = (
            ManagedGroup("g1", GroupName(name), Kind("switchbox")),
            ManagedGroup("g2", GroupName("box"), Kind("switchbox")),
            ManagedGroup("g3", GroupName(name), Kind("leaf"), "g1"),
            ManagedGroup("f1", GroupName("fly"), DRAGONFLY, "g2"),
        )
        known = {n: ((key, n if key == "node_name" else server(n)),) for n in places}
        machines = [ManagedMachine(f"m-{n}", known[n], group) for n, group in places.items()]
        if twin and places:
            machines.append(ManagedMachine("twin", known[min(places)], "g2"))
        self._advance(ManagerReported(ManagedTopology(groups, tuple(machines))))

    @rule(places=st.dictionaries(node, st.sampled_from(["f1", "f2", ""])), empty=st.booleans())
    def file_changes(self, places: dict[str, str], empty: bool) -> None:  # noqa: FBT001
        """Any file: groups at two depths, bare nodes, an empty group, nothing."""
        in_group: dict[str, list[DeclaredNode]] = {"f1": [], "f2": [], "": []}
        for name, group in places.items():
            in_group[group].append(DeclaredNode(NodeName(name)))
        flies = [
            DeclaredGroup(GroupName(fly), DRAGONFLY, tuple(in_group[fly]))
            for fly in ("f1", "f2")
            if in_group[fly] or empty
        ]
        box = DeclaredGroup(GroupName("box"), Kind("switchbox"), tuple(flies[:1]))
        outer: list[DeclaredGroup | DeclaredNode] = [*([box] if flies else []), *flies[1:]]
        self._advance(ConfigLoaded(DeclaredForest((*outer, *in_group[""]))))

    @rule()
    def master_restarts(self) -> None:
        """Through the bytes of the state file: the same nodes in the same places."""
        fresh = self._fresh()
        fresh.restore(
            MEMORY.validate_json(MEMORY.dump_json(self.state.persistent_state())), 1.0, self.now_s
        )
        assert shape(fresh) == shape(self.state)
        self.state = fresh

    @invariant()
    def no_node_is_lost_and_the_tree_is_strict(self) -> None:
        """Every known node once; no two groups of one path."""
        everywhere = sorted(n for members in shape(self.state).values() for n in members)
        assert everywhere == sorted(self.state.known)
        paths = [(*above, vertex.name) for above, vertex in self.state.snapshot.forest.walk()]
        assert len(paths) == len(set(paths))

    @invariant()
    def what_is_kept_is_what_is_worked_out_anew(self) -> None:
        """Tree, places, values, conflicts, lists and every index; nothing is out of date."""
        self.state.validate()


Consistency.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestConsistency = Consistency.TestCase
