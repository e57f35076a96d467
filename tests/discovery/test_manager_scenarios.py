"""What an operator meets with a cluster manager: one story a test."""

from tests.builders import (
    codes,
    discovery,
    facts,
    groups,
    listed,
    managed,
    report,
    ring,
    server,
    shape,
    together,
    why,
)
from topo.discovery.modes import Mode
from topo.model.forest import Status
from topo.model.ids import GroupName, Kind, NodeName
from topo.model.machine import (
    NodeFacts,
)
from topo.model.observation import (
    ManagedGroup,
    ManagedMachine,
    ManagedTopology,
    ManagerReported,
    WorkerBeat,
    WorkerReported,
)


def test_a_dragonfly_across_two_switchboxes_is_shown_in_parts():
    """The manager is followed for the tier it states, and the conflict is listed."""
    state = discovery(Mode.SWITCHBOX)
    state.advance(
        0.0, ManagerReported(managed({"box-1": ["a"], "box-2": ["b"]})), *ring(["a", "b"])
    )
    assert listed(state, "wiring-differs-from-manager") == ("a", "b")
    assert len(together(state)) == 2


def test_a_node_the_manager_does_not_list_follows_its_dragonfly():
    """And is listed, so that somebody adds it."""
    state = discovery(Mode.SWITCHBOX)
    state.advance(0.0, ManagerReported(managed({"box": ["a"]})), *ring(["a", "b"]))
    assert together(state) == {frozenset("ab")}
    assert listed(state, "not-in-manager") == ("b",)


def test_a_manager_that_states_other_dragonflies_is_contradicted():
    """The workers are followed inside a switchbox."""
    fly = [ManagedGroup(f"f{i}", GroupName(f"f{i}"), Kind("dragonfly"), "s") for i in (1, 2)]
    box = ManagedGroup("s", GroupName("box"), Kind("switchbox"))
    machines = tuple(
        ManagedMachine(n, (("hostname", n.upper()),), f"f{i}") for i, n in ((1, "a"), (2, "b"))
    )
    state = discovery(Mode.SWITCHBOX)
    state.advance(0.0, ManagerReported(ManagedTopology((box, *fly), machines)), *ring(["a", "b"]))
    assert together(state) == {frozenset("ab")}
    assert listed(state, "wiring-differs-from-manager") == ("a", "b")


def test_machines_are_joined_in_the_order_of_the_keys_and_never_guessed():
    """Ambiguous names, twins and strangers are reported with their place."""
    box = ManagedGroup("s", GroupName("box"), Kind("switchbox"))
    machines = (
        ManagedMachine("twin-1", (("hostname", "a"),), "s"),
        ManagedMachine("twin-2", (("server_uuid", server("a")),), "s"),
        ManagedMachine("lost", (("hostname", "nobody"),), "s"),
        ManagedMachine("nameless", (), "s"),
    )
    state = discovery(Mode.SWITCHBOX)
    state.advance(0.0, ManagerReported(ManagedTopology((box,), machines)), report("a"))
    unjoined = {m.id: m.text for m in state.snapshot.forest.unjoined}
    assert unjoined.keys() == {"twin-1", "twin-2", "lost", "nameless"}
    assert "no node answers to hostname=nobody" in unjoined["lost"]
    assert "machine-joined-twice" in codes(state)
    assert state.snapshot.forest.unjoined[0].group == ("box",)
    assert state.snapshot.forest.unplaced[0].reason.code == "no-peer"


def test_a_name_that_two_nodes_carry_joins_neither():
    """A cloned system UUID decides nothing."""
    one, other = facts("a"), facts("b")
    twins = [
        WorkerReported(
            NodeFacts(
                type(f.identity)(f.identity.name, f.identity.boot_id, system_uuid="SAME"), f.gpus
            )
        )
        for f in (one, other)
    ]
    box = ManagedGroup("s", GroupName("box"), Kind("switchbox"))
    machine = ManagedMachine("m", (("system_uuid", "same"),), "s")
    state = discovery(Mode.SWITCHBOX)
    state.advance(0.0, ManagerReported(ManagedTopology((box,), (machine,))), *twins)
    assert listed(state, "machine-ambiguous") == ("m", "a", "b")


def test_a_machine_that_the_manager_drops_is_kept_for_a_while():
    """Half an inventory gone is listed at once and believed only after ten minutes."""
    state = discovery(Mode.SWITCHBOX, machine_forget_s=600.0)
    state.advance(0.0, ManagerReported(managed({"box": ["a", "b"]})), *ring(["a", "b"]))
    state.advance(1.0, ManagerReported(managed({"box": []})))
    assert listed(state, "machine-vanished") == ("machine-a", "machine-b")
    (conflict,) = state.snapshot.forest.conflicts
    assert "2 machines that it listed before, 2 of box;" in conflict.text, "the box may have died"
    assert len(shape(state)) == 1
    state.advance(2.0, ManagerReported(managed({"box": ["a"]})))
    assert listed(state, "machine-vanished") == ("machine-b",)
    for at_s in range(10, 620, 10):
        state.advance(float(at_s), *(WorkerBeat(NodeName(n)) for n in "ab"))
    assert codes(state) == {"not-in-manager"}


def test_a_renamed_switchbox_keeps_its_nodes():
    """The manager's id is the identity; the name may change."""
    state = discovery(Mode.SWITCHBOX)
    state.advance(0.0, ManagerReported(managed({"box": ["a", "b"]})), *ring(["a", "b"]))
    old = managed({"box": ["a", "b"]})
    renamed = ManagedTopology(
        (ManagedGroup(old.groups[0].id, GroupName("new-box"), Kind("switchbox")),), old.machines
    )
    state.advance(1.0, ManagerReported(renamed))
    assert [g.name for g in state.snapshot.forest.roots] == ["new-box"]


def test_two_switchboxes_of_one_name_stay_two():
    """Their ids part them."""
    boxes = tuple(ManagedGroup(i, GroupName("box"), Kind("switchbox")) for i in ("x", "y"))
    machines = tuple(ManagedMachine(n, (("node_name", n),), i) for n, i in (("a", "x"), ("b", "y")))
    state = discovery(Mode.SWITCHBOX)
    state.advance(0.0, ManagerReported(ManagedTopology(boxes, machines)), report("a"), report("b"))
    assert shape(state) == {"box~x": ["a"], "box~y": ["b"]}


def test_the_managers_word_on_a_machine_counts():
    """NotReady with its source."""
    box = ManagedGroup("s", GroupName("box"), Kind("switchbox"))
    machine = ManagedMachine("m", (("node_name", "a"),), "s", Status.NOT_READY)
    state = discovery(Mode.SWITCHBOX)
    state.advance(0.0, ManagerReported(ManagedTopology((box,), (machine,))), *ring(["a", "b"]))
    assert why(state, "a") == "the cluster manager says NotReady"


def test_a_missing_machine_makes_its_switchbox_incomplete():
    """The manager lists three, two have workers."""
    state = discovery(Mode.SWITCHBOX)
    state.advance(0.0, ManagerReported(managed({"box": ["a", "b", "c"]})), *ring(["a", "b"]))
    assert [r.text for r in groups(state)["box"].reasons] == ["2 of 3 nodes"]
    assert [m.id for m in state.snapshot.forest.unjoined] == ["machine-c"]
