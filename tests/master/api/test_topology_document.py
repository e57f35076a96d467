"""The document of `GET /v1/topology`, and the part of it that a request names."""

from dataclasses import replace
from typing import Any

import orjson

from master.api.events.step_events import change_document
from master.tree.selection import find_groups, find_path
from master.tree.status_times import StatusTimes
from master.tree.topology_document import TopologyView, TreePart, document, entity_tag, version
from tests.builders import codes, declared, discovery, facts, managed, report, ring, server
from tests.discovery.labels import RACKS, listed
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.conditions.tree import ConflictCondition
from topo.model.forest import Snapshot
from topo.model.ids import GroupName, NodeName
from topo.model.machine import Peer, ServerPeers
from topo.model.observation import (
    CONFIG_FILE,
    ConfigLoaded,
    Event,
    ManagerReported,
    SourceFailed,
    WorkerRefused,
    WorkerReported,
)
from topo.model.rest.topology import is_group, walk
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host_follower import HostFollower

OURS = declared(
    {"box-2": {"fly-10": ["node-10", "node-9"], "fly-9": ["node-8"]}, "box-1": {"fly": ["node-1"]}}
)


def written(snapshot: Snapshot, mode: str, now_s: float, **part: Any) -> Any:
    """The document as it travels, of nodes on which nothing is booked."""
    capacity = Capacity()
    HostFollower(capacity).follow(snapshot.forest)
    view = TopologyView(snapshot, capacity.usage(()))
    return orjson.loads(orjson.dumps(document(view, mode, now_s, TreePart(**part))))


def test_the_topology_document_tells_reasons_capacity_and_sources():
    """What `/node_group` may not say."""
    state = discovery(Mode.SWITCHBOX)
    state.advance(
        10.0,
        ManagerReported(managed({"box": ["a", "b", "c"]})),
        *ring(["a", "b"]),
        report("stray", ["ghost"]),
        WorkerRefused(
            NodeName("a"), ConflictCondition.FOREIGN_REPORT, "a token of b reported for a"
        ),
    )
    said = written(state.snapshot, "switchbox", now_s=12.5)
    (box,) = said["groups"]
    assert box["capacity"] == {
        "nodes": 2,
        "ready": 2,
        "gpus": 16,
        "ready_gpus": 16,
        "free_gpus": 16,
        "used_gpus": 0,
        "held_gpus": 0,
        "cordoned_gpus": 0,
    }
    assert box["reasons"] == [{"code": "incomplete", "text": "2 of 3 nodes"}]
    (fly,) = box["child"]
    assert fly["path"] == ["box", fly["name"]]
    assert [c["name"] for c in fly["child"]] == ["a", "b"]
    assert said["unplaced"][0]["reason"]["code"] == "no-peer"
    assert {c["code"] for c in said["conflicts"]} == codes(state)
    assert said["unjoined"][0]["names"] == {"node_name": "c"}
    assert {s["source"]: (s["state"], s["age_s"]) for s in said["sources"]} == {
        "workers": ("ok", 2.5),
        "cluster-manager": ("ok", 2.5),
    }


def test_the_tag_is_another_when_only_the_next_step_of_a_source_is():
    """Who asks with the old tag would show the old step for as long as the source fails so."""
    state = discovery(Mode.CONFIG)
    tags = set()
    for fix in ("name the file with --config-file", "write it with write access for nobody"):
        state.advance(1.0, SourceFailed(CONFIG_FILE, "it cannot be read", fix))
        tags.add(entity_tag(version(state.snapshot, (0, 0), ())))
    assert len(tags) == 2


def test_a_wire_below_groups_of_one_name_is_told_once():
    """One is inside the other; a server is at the end of one cable."""
    state = discovery(Mode.CONFIG)
    nested = ConfigLoaded(declared({"x": {"x": ["a", "b"]}}))
    state.advance(0.0, nested, *ring(["a", "b"]), report("a", ["b", "ghost"]))
    groups = find_groups(state.snapshot.forest, GroupName("x"))
    said = written(state.snapshot, "config", 1.0, groups=groups)
    assert len(said["groups"]) == 1
    assert [(w["node"], w["slot"], w["peer"]) for w in said["wires"]] == [
        ("a", 1, "b"),
        ("a", 2, None),
    ]


def _step(state: Discovery, times: StatusTimes, now_s: float, *events: Event) -> None:
    """Let both take what happened by then."""
    times.note(state.advance(now_s, *events), now_s, state.shown)


def test_a_node_tells_since_when_it_has_its_status():
    """What an earlier process saw is not known: null, and not since this one started."""
    state, times = discovery(Mode.DRAGONFLY), StatusTimes()
    _step(state, times, 10.0, *ring(["a", "b"]))

    def since(now_s: float) -> Any:
        view = TopologyView(state.snapshot, times=times.copy())
        (fly,) = document(view, "dragonfly", now_s)["groups"]
        return {node["name"]: node["since_s"] for node in fly["child"] if not is_group(node)}

    assert since(12.5) == {"a": 2.5, "b": 2.5}
    _step(state, times, 500.0, *ring(["a", "b"])[:1])
    assert since(503.0) == {"a": 493.0, "b": 3.0}, "b is silent since then, a has been Ready"
    assert [row["since_s"] for row in written(state.snapshot, "x", 0.0)["groups"][0]["child"]] == [
        None,
        None,
    ]


def test_each_reason_of_a_node_tells_since_when_it_is_one():
    """A cable that was cut before the worker fell silent is cut for longer."""
    state, times = discovery(Mode.DRAGONFLY), StatusTimes()

    def since(now_s: float) -> Any:
        view = TopologyView(state.snapshot, times=times.copy())
        leaves = (v for _, v in walk(document(view, "", now_s)["groups"]) if not is_group(v))
        return {
            r.code: r.since_s for leaf in leaves if leaf["name"] == "a" for r in leaf["reasons"]
        }

    _step(state, times, 0.0, *ring(["a", "b"]))
    for at_s in (100.0, 101.0, 102.0):
        _step(state, times, at_s, report("a"), report("b", ["a"]))
    cut_s = since(110.0)["link-down"]
    assert 0.0 < cut_s <= 10.0
    _step(state, times, 150.0, report("b", ["a"]))
    assert since(160.0) == {"link-down": cut_s + 50.0, "worker-stale": 10.0}


def test_a_conflict_tells_since_when_it_is_there_and_a_group_who_confirms_it():
    """A conflict of other words is the same conflict; one that came before the start has no age."""
    state, times = discovery(Mode.SWITCHBOX, labels=RACKS), StatusTimes()
    state.advance(0.0, *ring(["a", "b"]), ManagerReported(managed({"box": ["a", "b"]})))
    _step(state, times, 10.0, ManagerReported(managed({"x": ["a"], "y": ["b"]})))
    _step(state, times, 20.0, ManagerReported(managed({"x": ["a"], "z": ["b"]})))
    view = TopologyView(state.snapshot, times=times.copy())
    (differs,) = (c for c in document(view, "", 25.0)["conflicts"] if len(c.subjects) == 2)
    assert (differs.code, differs.since_s) == ("wiring-differs-from-manager", 15.0)
    assert document(TopologyView(state.snapshot), "", 25.0)["conflicts"][0].since_s is None
    _step(state, times, 30.0, ManagerReported(managed({"box": ["a", "b"]})))
    assert times.copy().conflicts == {}
    state.advance(40.0, listed({"a": "r/1", "b": "r/1"}))
    (box,) = written(state.snapshot, "", 40.0)["groups"]
    assert [box["confirmed_by"], box["child"][0]["confirmed_by"]] == [["cluster-nodes"]] * 2


def test_depth_cuts_below_that_many_levels():
    """Depth 0 is the roots alone; capacity still counts everything."""
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(OURS))
    flat = written(state.snapshot, "config", 0.0, depth=0)
    assert [g["child"] for g in flat["groups"]] == [[], []]
    assert flat["groups"][1]["capacity"]["nodes"] == 3
    one = written(state.snapshot, "config", 0.0, depth=1)
    assert one["groups"][1]["child"][1]["child"] == []


def test_a_group_inside_one_of_its_name_is_shown_there_and_its_nodes_once():
    """`topo nodes --group x` would list them twice."""
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(declared({"x": {"x": ["a"], "y": ["b"]}, "z": {"x": ["c"]}})))
    groups = find_groups(state.snapshot.forest, "x")
    assert [(*above, group.name) for above, group in groups] == [("x",), ("z", "x")]
    ((above, inner),) = find_groups(state.snapshot.forest, "x/x")
    assert (above, len(inner.children)) == (("x",), 1)


def test_groups_are_found_by_name_or_path_and_nodes_by_their_path():
    """Two groups of one name are both found by it, one by its path."""
    state = discovery(Mode.CONFIG)
    state.advance(
        0.0,
        ConfigLoaded(declared({"x": {"rack": ["a"]}, "y": {"rack": ["b", "c"]}})),
        report("stray"),
    )
    forest = state.snapshot.forest
    assert len(find_groups(forest, "rack")) == 2
    ((above, group),) = find_groups(forest, "y/rack")
    assert (above, group.name) == (("y",), "rack")
    found = find_path(forest, NodeName("b"))
    assert found is not None
    pruned = written(state.snapshot, "config", 0.0, path=found)["groups"]
    assert [n["name"] for n in pruned[0]["child"][0]["child"]] == ["b"]
    assert [g["capacity"]["nodes"] for g in (pruned[0], *pruned[0]["child"])] == [2, 2]
    assert find_path(forest, NodeName("stray")) == ()
    assert find_path(forest, NodeName("nobody")) is None


def test_a_change_is_told_with_all_its_fields():
    """The event stream and the diff say the same."""
    state = discovery(Mode.CONFIG)
    changes = state.advance(0.0, ConfigLoaded(declared({"x": {"f": ["a"]}})))
    told = change_document(changes[-1])
    assert told == {
        "generation": 1,
        "what": "node-added",
        "subject": "a",
        "before": "",
        "after": "x/f",
        "why": "",
        "status": "Ready",
    }


def _wires(state: Discovery, **part: Any) -> list[Any]:
    told = written(state.snapshot, "dragonfly", 0.0, **part)["wires"]
    return [(w["node"], w["slot"], w["peer"], w["peer_slot"], w["state"]) for w in told]


def test_a_wire_is_told_once_with_both_its_slots_and_its_state():
    """Two nodes see each other; a third sees a server that nobody states."""
    state = discovery(Mode.DRAGONFLY)
    state.advance(0.0, *ring(["a", "b"]), report("c", ["ghost"]))
    assert _wires(state) == [("a", 1, "b", 1, "up"), ("c", 1, None, None, "unconfirmed")]
    state.advance(1.0, report("b", []), report("b", []))
    assert _wires(state)[0] == ("a", 1, "b", 1, "down"), "one end is enough, the peer is kept"
    state.advance(2.0, *[report("b", ["a"])] * 3)
    assert _wires(state)[0] == ("a", 1, "b", 1, "up")


def test_a_wire_that_moves_to_another_slot_is_a_change_of_the_tree():
    state = discovery(Mode.DRAGONFLY)
    state.advance(0.0, *ring(["a", "b"]))
    before = state.snapshot.generation
    moved = replace(facts("b"), peers=ServerPeers(server("b"), (Peer(2, server("a")),)))
    state.advance(1.0, WorkerReported(moved))
    assert state.snapshot.generation == before + 1
    assert _wires(state) == [("a", 1, "b", 2, "up")]


def test_of_one_node_its_own_wires_are_told_with_the_other_ends():
    state = discovery(Mode.DRAGONFLY, node_number=4)
    state.advance(0.0, *ring(["a", "b", "c", "d"]))
    assert len(_wires(state)) == 4
    path = find_path(state.snapshot.forest, NodeName("c"))
    assert _wires(state, path=path) == [("c", 1, "b", 2, "up"), ("c", 2, "d", 1, "up")]
    assert _wires(state, depth=0) == []
