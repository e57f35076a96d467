"""Cases that a careless rule gets wrong: restarts with clones, moved slots, placeholders."""

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    codes,
    declared,
    discovery,
    fabric_facts,
    facts,
    groups,
    managed,
    nodes,
    not_ready,
    report,
    ring,
    server,
    shape,
    together,
)
from topo.discovery.groups.machine_join import Machines
from topo.discovery.groups.wiring import Wiring
from topo.discovery.modes import Mode
from topo.discovery.tree.changes import net
from topo.model.forest import Status
from topo.model.ids import GroupName, Kind, NodeName, ServerUuid
from topo.model.machine import (
    GpuFabric,
    NodeFacts,
    NodeIdentity,
    Peer,
    ProbeHealth,
    ProbeState,
    ServerPeers,
)
from topo.model.observation import (
    ConfigLoaded,
    DeclaredForest,
    DeclaredGroup,
    ManagedGroup,
    ManagedMachine,
    ManagedTopology,
    ManagerReported,
    NodeRemoved,
    WorkerBeat,
    WorkerReported,
)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_restart_does_not_take_a_group_apart_for_a_clone(order):
    """The link that was there before the clone came wins in the next process, too."""
    first = discovery()
    first.advance(0.0, *ring(["a", "b"]))
    first.advance(61.0, report("c", ["a"], local=server("b")))
    memory = first.persistent_state()
    shuffled = type(memory)(
        memory.format,
        memory.generation,
        tuple(memory.nodes[i] for i in order),
        memory.links,
        memory.names,
        memory.topology,
        memory.declared,
    )
    second = discovery()
    second.restore(shuffled, 1.0, 100.0)
    second.advance(101.0, *ring(["a", "b"]), report("c", ["a"], local=server("b")))
    assert together(second) == {frozenset("ab")}


def test_a_recabled_port_of_a_driver_that_moves_slots_makes_no_group_of_five():
    """B leaves a ring for x; a's list is compacted meanwhile, so slots say nothing."""
    state = discovery(node_number=4)
    state.advance(0.0, *ring(["a", "b", "c", "d"]))

    def a_sees(*peers: str) -> WorkerReported:
        remotes = tuple(Peer(i, server(p)) for i, p in enumerate(peers, 1))
        seen = facts("a")
        return WorkerReported(
            NodeFacts(seen.identity, seen.gpus, peers=ServerPeers(server("a"), remotes))
        )

    for _ in range(3):
        state.advance(1.0, a_sees("d"), report("c", ["d"]))
    for _ in range(3):
        state.advance(
            2.0, a_sees("d", "x"), report("c", ["d", "x"]), report("x", ["a", "c"]), report("b")
        )
        assert all(len(members) <= 4 for members in together(state))
    assert together(state) == {frozenset({"a", "c", "d", "x"})}


def test_a_fabric_that_restarts_keeps_its_domain_and_marks_its_nodes():
    """`In Progress` is a bad reading, not another place; nothing empties."""
    state = discovery(Mode.NVLINK)
    state.advance(0.0, *(WorkerReported(fabric_facts(n, "c1")) for n in "ab"))
    before = shape(state)
    busy = [
        NodeFacts(f.identity, f.gpus, fabrics=tuple(GpuFabric(i, "In Progress") for i in range(4)))
        for f in (fabric_facts(n, "c1") for n in "ab")
    ]
    state.advance(1.0, *map(WorkerReported, busy))
    assert (shape(state), not_ready(state)) == (before, set())
    state.advance(2.0, *map(WorkerReported, busy))
    assert (shape(state), not_ready(state)) == (before, {"a", "b"})
    assert "now state none" in nodes(state)["a"].reasons[0].text
    for _ in range(3):
        state.advance(3.0, *(WorkerReported(fabric_facts(n, "c1")) for n in "ab"))
    assert (shape(state), not_ready(state)) == (before, set())


def test_a_domain_that_is_gone_for_a_day_is_forgotten():
    """Then the node is in no group, and well."""
    state = discovery(Mode.NVLINK, forget_s=100.0)
    state.advance(0.0, WorkerReported(fabric_facts("a", "c1")))
    for at_s in range(1, 130):
        state.advance(float(at_s), WorkerReported(fabric_facts("a", "")))
    assert shape(state) == {"": ["a"]}
    assert not_ready(state) == set()


def test_a_conflict_of_gpus_tells_what_they_state_now():
    """Other values, another text; and it is there after a restart."""
    state = discovery(Mode.NVLINK)
    for other in ("c2", "c3"):
        one, two = fabric_facts("a", "c1"), fabric_facts("a", other)
        mixed = NodeFacts(one.identity, one.gpus, fabrics=(*one.fabrics[:2], *two.fabrics[2:]))
        state.advance(0.0, WorkerReported(mixed))
        (conflict,) = state.snapshot.forest.conflicts
        assert f"c1.1, {other}.1" in conflict.text
    again = discovery(Mode.NVLINK)
    again.restore(state.persistent_state(), 1.0, 10.0)
    assert again.snapshot.forest.conflicts == state.snapshot.forest.conflicts


@pytest.mark.parametrize("booted", [False, True])
def test_no_gpu_at_all_with_failing_probes_is_not_ready(booted):
    """On the first report as well as after a reboot into a broken driver."""
    state = discovery()
    if booted:
        state.advance(0.0, report("a"))
    dead = NodeFacts(
        facts("a", boot="boot-2").identity,
        probes=(ProbeHealth("nvml", ProbeState.FAILED, "driver not loaded"),),
    )
    for _ in range(2):
        state.advance(1.0, WorkerReported(dead))
    assert "driver not loaded" in nodes(state)["a"].reasons[0].text


def test_a_host_without_gpus_and_without_failing_probes_is_well():
    """Nothing was expected and nothing failed."""
    state = discovery()
    state.advance(0.0, WorkerReported(NodeFacts(facts("a").identity)))
    assert not_ready(state) == set()


def test_a_switchbox_made_anew_under_another_id_keeps_its_name():
    """The old one is only held for a missing machine, gives way, and goes with it."""
    state = discovery(Mode.SWITCHBOX, machine_forget_s=60.0)
    state.advance(0.0, ManagerReported(managed({"box": ["a", "b", "c"]})), *ring(["a", "b"]))
    old = managed({"box": ["a", "b"]})
    again = ManagedTopology(
        (ManagedGroup("new", GroupName("box"), Kind("switchbox")),),
        tuple(ManagedMachine(m.id, m.names, "new") for m in old.machines),
    )
    state.advance(1.0, ManagerReported(again), report("c"))
    names = {g.name for g in state.snapshot.forest.roots}
    assert names == {"box", "box~id-box"}
    for at_s in (20.0, 40.0, 62.0):
        state.advance(at_s, *(WorkerBeat(NodeName(n)) for n in "abc"))
    assert [g.name for g in state.snapshot.forest.roots] == ["box"]


@pytest.mark.parametrize("seen", [[], ["b"]])
def test_a_node_in_a_switchbox_without_a_dragonfly_says_so(seen):
    """Missing wiring is not Ready, and why stands beside it."""
    state = discovery(Mode.SWITCHBOX)
    state.advance(
        0.0, ManagerReported(managed({"box": ["a", "b"]})), report("a", seen), report("b")
    )
    assert shape(state) == {"box": ["a", "b"]}
    assert not_ready(state) == {"a", "b"}
    assert nodes(state)["a"].reasons[0].text.startswith("in no dragonfly: ")
    assert groups(state)["box"].status is Status.NOT_READY


def test_a_node_that_left_and_came_back_worse_is_one_change_of_status():
    """The net tells what is different, not how it came."""
    state = discovery()
    told = [*state.advance(0.0, *ring(["a", "b"]))]
    before = len(told)
    told += state.advance(1.0, NodeRemoved(NodeName("a")))
    told += state.advance(2.0, report("a", ["b"], sick=[0]))
    left = [c for c in net(told[before:]) if c.subject == "a"]
    assert [(c.what, c.before, c.after) for c in left] == [("node-status", "Ready", "NotReady")]


def test_an_empty_group_of_the_file_is_shown_until_the_file_drops_it():
    """It may be about to be filled; it is not Ready."""
    empty = DeclaredGroup(GroupName("fly-2"), Kind("dragonfly"))
    full = declared({"box": {"fly-1": ["a"]}}).roots
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(DeclaredForest((*full, empty))))
    assert [(g.name, g.status) for g in state.snapshot.forest.roots] == [
        ("box", Status.READY),
        ("fly-2", Status.NOT_READY),
    ]
    state.advance(1.0, ConfigLoaded(DeclaredForest(full)))
    assert [g.name for g in state.snapshot.forest.roots] == ["box"]


def test_a_file_that_lists_nothing_any_more_changes_nothing():
    """An empty source never empties the forest; at the start it is a tree without nodes."""
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(DeclaredForest()))
    state.advance(1.0, ConfigLoaded(declared({"box": {"fly": ["a"]}})))
    state.advance(2.0, ConfigLoaded(DeclaredForest()))
    assert shape(state) == {"box/fly": ["a"]}
    (config, _) = state.snapshot.sources
    assert "lists nothing any more" in config.trouble


def test_what_came_and_went_leaves_nothing_behind():
    """Names, joins and sessions of nodes long gone take no memory."""
    state = discovery(Mode.SWITCHBOX)
    for i in range(50):
        pair = [f"n{i}a", f"n{i}b"]
        state.advance(float(i), *ring(pair))
        state.advance(float(i), *(NodeRemoved(NodeName(n)) for n in pair))
    memory = state.persistent_state()
    assert (memory.nodes, memory.names, memory.links) == ((), (), ())
    assert state.known == ()
    state.validate()


def test_a_peer_that_is_oneself_joins_nothing():
    """A loop plug is no neighbour."""
    state = discovery()
    state.advance(0.0, report("a", ["a"]))
    assert together(state) == set()
    assert codes(state) == set()


def test_a_group_that_loses_its_parent_moves_with_its_nodes():
    """A tier disappears: the nodes stand one level higher, none is lost."""
    pod = ManagedGroup("p", GroupName("pod"), Kind("pod"))
    box = ManagedGroup("s", GroupName("box"), Kind("switchbox"), "p")
    machines = tuple(ManagedMachine(n, (("node_name", n),), "s") for n in "ab")
    state = discovery(Mode.SWITCHBOX)
    state.advance(0.0, ManagerReported(ManagedTopology((pod, box), machines)), *ring(["a", "b"]))
    assert [path.count("/") for path in shape(state)] == [2]
    root = ManagedGroup("s", GroupName("box"), Kind("switchbox"))
    state.advance(1.0, ManagerReported(ManagedTopology((root,), machines)))
    (path,) = shape(state)
    assert path.startswith("box/dragonfly-")


def test_a_switchbox_beside_nested_ones_stays():
    """A leaf without an uplink does not vanish."""
    pod = ManagedGroup("p", GroupName("pod"), Kind("pod"))
    inside = ManagedGroup("s1", GroupName("box-1"), Kind("switchbox"), "p")
    beside = ManagedGroup("s2", GroupName("box-2"), Kind("switchbox"))
    machines = (
        ManagedMachine("a", (("node_name", "a"),), "s1"),
        ManagedMachine("b", (("node_name", "b"),), "s2"),
    )
    state = discovery(Mode.SWITCHBOX)
    state.advance(
        0.0,
        ManagerReported(ManagedTopology((pod, inside, beside), machines)),
        report("a"),
        report("b"),
    )
    assert shape(state) == {"pod/box-1": ["a"], "box-2": ["b"]}


@given(st.integers(9, 30))
def test_a_placeholder_uuid_on_many_boards_keeps_the_links_that_were_there(crowd):
    """Boards without a serial number share one: none of them is a neighbour, old links stay."""
    state = discovery()
    state.advance(0.0, *ring(["a", "b"]))
    placeholder = server("b")
    for i in range(crowd):
        state.advance(61.0 + i, report(f"x{i}", ["a"], local=placeholder))
    state.advance(200.0, *ring(["a", "b"]))
    assert together(state) == {frozenset("ab")}
    (clones,) = [c for c in state.snapshot.forest.conflicts if c.code == "cloned-server-uuid"]
    assert f"and {crowd + 1 - 8} more" in clones.text


def test_a_name_that_a_crowd_carries_joins_nothing_and_costs_nothing(monkeypatch):
    """Boards of one system and server UUID: each report looks at a few machines and claims."""
    number, looks = 300, Counter[str]()
    for owner, name in ((Machines, "_matching_nodes"), (Wiring, "_partners")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name), looks))
    machines = tuple(
        ManagedMachine(f"m{i}", (("system_uuid", "0"), ("node_name", f"n{i}")), "s")
        for i in range(number)
    )
    box = ManagedGroup("s", GroupName("box"), Kind("switchbox"))
    state = discovery(Mode.SWITCHBOX, join_keys=("system_uuid", "node_name"))
    state.advance(0.0, ManagerReported(ManagedTopology((box,), machines)))
    blank = ServerUuid("0")
    for i in range(number):
        identity = NodeIdentity(NodeName(f"n{i}"), facts("a").identity.boot_id, system_uuid="0")
        stated = NodeFacts(identity, peers=ServerPeers(blank, (Peer(1, blank),)))
        state.advance(1.0, WorkerReported(stated))
    assert len(shape(state)["box"]) == number
    assert looks["_join"] <= 2 * number
    assert looks["_partners"] <= 2 * number


def counted(function, looks):
    """The function, with its calls counted."""

    def call(*arguments: object) -> object:
        looks[function.__name__] += 1
        return function(*arguments)

    return call
