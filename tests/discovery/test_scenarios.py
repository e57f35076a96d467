"""What an operator meets: one story a test."""

from dataclasses import replace

import pytest

from master.tree.topology_document import TopologyView, document
from tests.builders import (
    codes,
    declared,
    discovery,
    fabric_facts,
    facts,
    groups,
    listed,
    managed,
    nodes,
    not_ready,
    report,
    ring,
    server,
    shape,
    together,
    why,
)
from topo.discovery.modes import Mode
from topo.model.conditions.tree import ConflictCondition
from topo.model.forest import Status
from topo.model.ids import GroupName, Kind, NodeName
from topo.model.machine import (
    Gpu,
    LinkPort,
    NodeFacts,
    PortState,
    ProbeHealth,
    ProbeState,
)
from topo.model.observation import (
    CONFIG_FILE,
    ConfigLoaded,
    DeclaredForest,
    DeclaredGroup,
    DeclaredNode,
    ManagerReported,
    SourceFailed,
    SourceRecovered,
    Ticked,
    WorkerBeat,
    WorkerRefused,
    WorkerReported,
)
from topo.model.wire import RECONNECT_S


def test_a_pulled_cable_keeps_the_group_and_marks_it():
    """Two bad readings: the node, its dragonfly and its switchbox are NotReady and say why."""
    state = discovery(Mode.SWITCHBOX)
    state.advance(0.0, ManagerReported(managed({"box": ["a", "b"]})), *ring(["a", "b"]))
    assert {g.status for g in groups(state).values()} == {Status.READY}
    assert state.advance(1.0, report("a")) == ()
    changes = state.advance(1.2, report("a"))
    assert [c.what for c in changes] == ["group-status", "group-status", "node-status"]
    assert why(state, "a") == (
        "the link to b is down: remote 1 (server server-of-b) is no longer seen"
    )
    assert not_ready(state) == {"a"}
    assert {g.status for g in groups(state).values()} == {Status.NOT_READY}
    assert together(state) == {frozenset("ab")}


def test_a_healed_cable_needs_three_good_readings():
    """Up again only when it stays up."""
    state = discovery()
    state.advance(0.0, *ring(["a", "b"]))
    state.advance(1.0, report("a"))
    state.advance(2.0, report("a"))
    for _ in range(2):
        state.advance(3.0, report("a", ["b"]))
        assert not_ready(state) == {"a"}
    state.advance(4.0, WorkerBeat(NodeName("a")))
    assert not_ready(state) == set()


def test_a_named_but_unconnected_peer_is_down():
    """`mx_server_conn_status 0` is a bad reading, not a missing cable."""
    state = discovery()
    state.advance(0.0, *ring(["a", "b"]))
    for _ in range(2):
        state.advance(1.0, report("a", ["b"], unplugged=["b"]))
    assert "is named but not connected" in why(state, "a")


def test_a_one_sided_link_joins_nothing_and_is_listed():
    """The other side does not confirm: suspect."""
    state = discovery()
    state.advance(0.0, report("a", ["b"]), report("b"))
    assert together(state) == set()
    assert listed(state, "one-sided-link") == ("a", "b")
    (entry, _) = state.snapshot.forest.unplaced
    assert entry.reason.code == "no-peer"
    assert "does not confirm" in entry.reason.text


def test_a_peer_without_a_worker_is_listed():
    """The cable leads to a server that nobody reported."""
    state = discovery()
    state.advance(0.0, report("a", ["b"]))
    assert listed(state, "unknown-peer") == ("a",)
    assert "no worker has reported" in state.snapshot.forest.unplaced[0].reason.text


def test_a_component_larger_than_node_number_is_reported_whole():
    """A wiring fault is shown, not cut silently."""
    state = discovery(node_number=2)
    state.advance(0.0, *ring(["a", "b", "c"]))
    assert together(state) == {frozenset("abc")}
    assert listed(state, "oversize-group") == ("a", "b", "c")
    (group,) = groups(state).values()
    assert group.status is Status.NOT_READY
    assert [r.code for r in group.reasons] == ["oversize"]


def test_an_incomplete_dragonfly_says_how_many_are_missing():
    """Three of four nodes."""
    state = discovery(node_number=4)
    state.advance(0.0, *ring(["a", "b", "c"]))
    (group,) = groups(state).values()
    assert [(r.code, r.text) for r in group.reasons] == [("incomplete", "3 of 4 nodes")]


def test_two_boards_with_one_uuid_cancel_each_other_when_young():
    """Nobody can say which is meant: no link, both listed."""
    state = discovery()
    state.advance(0.0, *ring(["a", "b"]), report("c", ["a"], local=server("b")))
    assert together(state) == set()
    assert listed(state, "cloned-server-uuid") == ("b", "c")


def test_a_late_clone_does_not_take_a_known_good_group_apart():
    """A link confirmed for a minute wins over the newcomer, who is listed and unplaced."""
    state = discovery()
    state.advance(0.0, *ring(["a", "b"]))
    state.advance(61.0, report("c", ["a"], local=server("b")))
    assert together(state) == {frozenset("ab")}
    assert listed(state, "cloned-server-uuid") == ("b", "c")
    assert {u.node.name for u in state.snapshot.forest.unplaced} == {"c"}


def test_a_clone_that_claims_nothing_back_harms_nothing():
    """Only a returned claim can make a link ambiguous."""
    state = discovery()
    state.advance(0.0, *ring(["a", "b"]), report("c", local=server("b")))
    assert together(state) == {frozenset("ab")}
    assert "cloned-server-uuid" in codes(state)


def test_three_missed_beats_make_a_worker_stale_and_one_word_revives_it():
    """Stale is NotReady with the reason; the place stays."""
    state = discovery()
    state.advance(0.0, *ring(["a", "b"]))
    state.advance(29.0, WorkerBeat(NodeName("a")))
    state.advance(30.0, Ticked())
    assert not_ready(state) == {"b"}
    assert "its worker is stale: no report within 3 beats (30 s)" in why(state, "b")
    state.advance(31.0, WorkerBeat(NodeName("b")))
    assert not_ready(state) == set()


def test_a_node_silent_for_a_day_is_forgotten():
    """Outside Kubernetes nobody says that a node is gone."""
    state = discovery(forget_s=100.0)
    state.advance(0.0, *ring(["a", "b"]))
    state.advance(31.0, WorkerBeat(NodeName("a")))
    state.advance(60.0, WorkerBeat(NodeName("a")))
    state.advance(140.0, WorkerBeat(NodeName("a")))
    assert state.known == ("a",)
    assert state.detail(NodeName("b")) is None


def test_a_link_dead_for_a_day_is_forgotten():
    """Then the node stands alone and is well."""
    state = discovery(forget_s=100.0)
    state.advance(0.0, *ring(["a", "b"]))
    for node in ("a", "b"):
        for _ in range(2):
            state.advance(1.0, report(node))
    assert together(state) == {frozenset("ab")}
    for at_s in (30.0, 60.0, 90.0, 120.0):
        state.advance(at_s, WorkerBeat(NodeName("a")), WorkerBeat(NodeName("b")))
    assert together(state) == set()
    assert not_ready(state) == set()


def test_a_beat_of_an_unknown_node_is_nothing():
    """The transport asks for a full report; the state ignores the beat."""
    assert discovery().advance(0.0, WorkerBeat(NodeName("ghost"))) == ()


@pytest.mark.parametrize(
    ("sick", "text"),
    [
        (facts("a", sick=[3]), "GPU 3 is unhealthy"),
        (facts("a", gpus=7), "7 of 8 GPUs reported"),
        (
            NodeFacts(
                facts("a").identity,
                probes=(ProbeHealth("mxsml", ProbeState.TIMED_OUT, "no answer in 5 s"),),
            ),
            "0 of 8 GPUs reported (probe mxsml: no answer in 5 s)",
        ),
        (
            NodeFacts(
                facts("a").identity,
                tuple(Gpu(i) for i in range(8)),
                ports=(LinkPort(2, 4, PortState.DOWN, trouble="optical module missing"),),
            ),
            "GPU 2 link port 4 is down: optical module missing",
        ),
    ],
)
def test_sick_hardware_makes_its_node_not_ready(sick, text):
    """Each kind of trouble is named."""
    state = discovery()
    state.advance(0.0, report("a"), WorkerBeat(NodeName("a")))
    for _ in range(2):
        state.advance(1.0, WorkerReported(sick))
    assert text in why(state, "a")
    repaired = replace(facts("a"), ports=(LinkPort(2, 4, PortState.UP),))
    for _ in range(3):
        state.advance(2.0, WorkerReported(repaired))
    assert not_ready(state) == set()


def test_gpus_per_node_is_expected_from_the_first_reading():
    """A node that never showed eight is not well."""
    state = discovery(gpus_per_node=8)
    state.advance(0.0, report("a", gpus=4))
    assert not_ready(state) == {"a"}


def test_nvlink_cliques_stand_in_their_cluster():
    """clusterUuid, then clique; nodes outside any domain are unplaced with the reason."""
    state = discovery(Mode.NVLINK)
    state.advance(
        0.0,
        *(WorkerReported(fabric_facts(n, "c1", 1)) for n in ("a", "b")),
        WorkerReported(fabric_facts("c", "c1", 2)),
        WorkerReported(fabric_facts("d", "")),
    )
    assert together(state) == {frozenset("ab"), frozenset("c")}
    assert [g.kind for g in state.snapshot.forest.roots] == ["nvlink-domain"]
    assert state.snapshot.forest.unplaced[0].reason.code == "no-fabric"


def test_fabric_manager_may_renumber_without_renaming():
    """New ids, same members: the names stay once most members moved."""
    state = discovery(Mode.NVLINK)
    names = ["a", "b", "c"]
    state.advance(0.0, *(WorkerReported(fabric_facts(n, "c1", 7)) for n in names))
    before = set(groups(state))
    for _ in range(2):
        for name in names:
            state.advance(1.0, WorkerReported(fabric_facts(name, "c2", 9)))
    assert set(groups(state)) == before
    assert together(state) == {frozenset("abc")}
    assert not_ready(state) == set()


def test_gpus_that_disagree_about_their_domain_are_a_conflict():
    """The node is in no group, and says so."""
    one, other = fabric_facts("a", "c1"), fabric_facts("a", "c2")
    mixed = NodeFacts(one.identity, one.gpus, fabrics=(*one.fabrics[:2], *other.fabrics[2:]))
    state = discovery(Mode.NVLINK)
    state.advance(0.0, WorkerReported(mixed))
    assert listed(state, "gpus-disagree") == ("a",)
    assert state.snapshot.forest.unplaced[0].node.name == "a"
    state.advance(1.0, WorkerReported(one))
    assert codes(state) == set()


def test_auto_takes_what_the_workers_see():
    """NVLink domains and dragonflies beside each other."""
    state = discovery(Mode.AUTO)
    state.advance(
        0.0, *ring(["a", "b"]), *(WorkerReported(fabric_facts(n, "c1")) for n in ("x", "y"))
    )
    assert together(state) == {frozenset("ab"), frozenset("xy")}


def test_config_status_is_the_files_else_ready():
    """Where nothing else is known of a node."""
    told = DeclaredGroup(
        GroupName("fly"),
        Kind("dragonfly"),
        (DeclaredNode(NodeName("a"), Status.NOT_READY), DeclaredNode(NodeName("b"))),
    )
    state = discovery(Mode.CONFIG, gpus_per_node=8)
    state.advance(0.0, ConfigLoaded(DeclaredForest((told,))))
    assert not_ready(state) == {"a"}
    assert nodes(state)["b"].gpus == 8
    assert groups(state)["fly"].status is Status.NOT_READY
    state.advance(1.0, report("a"))
    assert not_ready(state) == set()


def test_a_group_written_not_ready_without_cause_stays_so():
    """The operator's word on the group itself counts."""
    told = DeclaredGroup(
        GroupName("fly"), Kind("dragonfly"), (DeclaredNode(NodeName("a")),), Status.NOT_READY
    )
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(DeclaredForest((told,))))
    assert groups(state)["fly"].reasons[0].code == "config"


def test_config_mode_lists_strangers_and_bare_nodes_as_unplaced():
    """No node is lost: neither one the file forgot nor one it puts in no group."""
    state = discovery(Mode.CONFIG)
    forest = DeclaredForest((DeclaredNode(NodeName("bare")),))
    state.advance(0.0, ConfigLoaded(forest), report("stranger"))
    reasons = {u.node.name: u.reason.code for u in state.snapshot.forest.unplaced}
    assert reasons == {"bare": "no-group-in-config", "stranger": "not-in-config"}


def test_a_broken_config_file_keeps_the_last_good_forest():
    """The source is failing, says why, and recovers."""
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(declared({"box": {"fly": ["a"]}})))
    state.advance(1.0, SourceFailed(CONFIG_FILE, "line 3: unknown key 'nmae'"))
    state.advance(2.0, SourceFailed(CONFIG_FILE, "line 3: unknown key 'nmae'"))
    (config,) = [s for s in state.snapshot.sources if s.source == CONFIG_FILE]
    assert (config.last_good_at_s, config.failing_since_s) == (0.0, 1.0)
    assert shape(state) == {"box/fly": ["a"]}
    state.advance(3.0, SourceRecovered(CONFIG_FILE))
    (config,) = [s for s in state.snapshot.sources if s.source == CONFIG_FILE]
    assert config.failing_since_s is None


def test_a_new_config_file_moves_and_removes_nodes():
    """Nodes only the file knew leave with it."""
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(declared({"box": {"f1": ["a", "b"], "f2": ["c"]}})))
    changes = state.advance(1.0, ConfigLoaded(declared({"box": {"f1": ["a"], "f2": ["b"]}})))
    found = {(c.what, c.subject) for c in changes}
    assert {("node-moved", "b"), ("node-removed", "c")} <= found
    assert shape(state) == {"box/f1": ["a"], "box/f2": ["b"]}


def test_equal_names_under_two_parents_never_merge():
    """Identity is parent-qualified."""
    state = discovery(Mode.CONFIG)
    state.advance(
        0.0, ConfigLoaded(declared({"zone-1": {"rack-1": ["a"]}, "zone-2": {"rack-1": ["b"]}}))
    )
    assert shape(state) == {"zone-1/rack-1": ["a"], "zone-2/rack-1": ["b"]}


def test_wiring_that_differs_from_the_config_file_is_listed():
    """The file is followed."""
    state = discovery(Mode.CONFIG)
    state.advance(
        0.0, ConfigLoaded(declared({"box": {"f1": ["a"], "f2": ["b"]}})), *ring(["a", "b"])
    )
    assert listed(state, "wiring-differs-from-config") == ("a", "b")
    assert shape(state) == {"box/f1": ["a"], "box/f2": ["b"]}


def test_a_refused_report_is_listed_for_a_minute():
    """A worker that lies about another node, or two workers with one name."""
    state = discovery()
    refusal = WorkerRefused(
        NodeName("a"), ConflictCondition.DUPLICATE_WORKER, "two workers call themselves a"
    )
    state.advance(0.0, refusal)
    state.advance(50.0, refusal)
    assert listed(state, "duplicate-worker") == ("a",)
    state.advance(111.0, Ticked())
    assert codes(state) == set()


def test_restored_nodes_wait_for_their_workers_and_go_stale_without_them():
    """What was Ready stays so until its worker should have found the master, and three beats."""
    first = discovery(Mode.CONFIG)
    first.advance(0.0, ConfigLoaded(declared({"box": {"fly": ["a"]}})), report("a"), report("b"))
    second = discovery(Mode.CONFIG)
    second.restore(first.persistent_state(), age_s=12.0, now_s=500.0)
    assert document(TopologyView(second.snapshot), "config", 500.0)["restored_age_s"] == 12.0
    assert not_ready(second) == set()
    second.advance(529.0, report("b"))
    assert document(TopologyView(second.snapshot), "config", 529.0)["restored_age_s"] == 41.0
    second.advance(529.0, ConfigLoaded(declared({"box": {"fly": ["a"]}})))
    assert document(TopologyView(second.snapshot), "config", 529.0)["restored_age_s"] is None
    late_s = 500.0 + RECONNECT_S + 30.0
    second.advance(late_s - 1.0, WorkerBeat(NodeName("b")))
    assert not_ready(second) == set()
    second.advance(late_s, Ticked())
    assert not_ready(second) == {"a"}


def test_a_link_that_was_down_is_down_after_a_restart():
    """The verdict survives; three good readings lift it."""
    first = discovery()
    first.advance(0.0, *ring(["a", "b"]))
    for _ in range(2):
        first.advance(1.0, report("a"))
    second = discovery()
    second.restore(first.persistent_state(), 1.0, 10.0)
    assert not_ready(second) == {"a"}
    for _ in range(3):
        second.advance(11.0, report("a", ["b"]))
    assert not_ready(second) == set()


def test_detail_says_what_is_known_of_a_node():
    """Facts and neighbours of a reporting node; nothing but the name of a declared one."""
    state = discovery(Mode.CONFIG)
    state.advance(5.0, ConfigLoaded(declared({"box": {"fly": ["a", "b", "c"]}})), *ring(["a", "b"]))
    detail = state.detail(NodeName("a"))
    assert detail is not None
    assert detail.neighbours == ("b",)
    assert (detail.seen_at_s, detail.stale) == (5.0, False)
    assert detail.facts == state.facts(NodeName("a")) == facts("a", ["b"])
    bare = state.detail(NodeName("c"))
    assert bare is not None
    assert bare.facts is None
    assert state.facts(NodeName("c")) is None


def test_a_domain_of_two_keeps_its_name_over_a_restart():
    """A node that moved to another's domain brought its name; half of the members have none."""
    state = discovery(Mode.NVLINK)
    for node, cluster in (("b", "c1"), ("a", "c2"), ("b", "c2"), ("b", "c2")):
        state.advance(0.0, WorkerReported(fabric_facts(node, cluster)))
    again = state.fresh()
    again.restore(state.persistent_state(), 1.0, 0.0)
    again.validate()
    assert shape(again) == shape(state)
    assert list(shape(state).values()) == [["a", "b"]]
