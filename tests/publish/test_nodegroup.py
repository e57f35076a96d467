"""The vendor's document."""

import json
from pathlib import Path

import pytest

from tests.builders import codes, declared, discovery, managed, report, ring
from topo.discovery.modes import Mode
from topo.facts import parse
from topo.model.ids import NodeName
from topo.model.observation import (
    ConfigLoaded,
    DeclaredForest,
    ManagerReported,
    ParsedProbe,
    WorkerRefused,
)
from topo.publish.nodegroup import render
from topo.publish.topology import (
    change_document,
    document,
    find_groups,
    path_to,
)

EXAMPLE = Path(__file__).parents[3] / "shared/data/vendor/node_group.json"

OURS = declared(
    {"box-2": {"fly-10": ["node-10", "node-9"], "fly-9": ["node-8"]}, "box-1": {"fly": ["node-1"]}}
)


def test_only_the_vendors_keys_appear_in_natural_order():
    """`name kind child status`, groups by name, unplaced nodes as roots of kind node."""
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(OURS), report("stray"))
    found = json.loads(render(state.snapshot.forest))
    assert [root["name"] for root in found] == ["box-1", "box-2", "stray"]
    assert list(found[0]) == ["name", "kind", "child", "status"]
    assert [fly["name"] for fly in found[1]["child"]] == ["fly-9", "fly-10"]
    assert found[1]["child"][1]["child"] == [
        {"name": "node-9", "kind": "node", "status": "Ready"},
        {"name": "node-10", "kind": "node", "status": "Ready"},
    ]
    assert found[2] == {"name": "stray", "kind": "node", "status": "Ready"}


def test_its_own_output_is_valid_input_and_comes_back_the_same():
    """`curl …/node_group` may be the config file."""
    first = discovery(Mode.CONFIG)
    first.advance(0.0, ConfigLoaded(OURS))
    said = render(first.snapshot.forest)
    parsed = parse(said.decode(), "nodegroup")
    assert isinstance(parsed, ParsedProbe)
    (forest,) = parsed.facts
    assert isinstance(forest, DeclaredForest)
    second = discovery(Mode.CONFIG)
    second.advance(0.0, ConfigLoaded(forest))
    assert render(second.snapshot.forest) == said


@pytest.mark.skipif(not EXAMPLE.exists(), reason="the vendor's example is not beside this clone")
def test_the_vendors_example_comes_back_as_the_same_json():
    """Four nodes, given as the config file."""
    text = EXAMPLE.read_text()
    parsed = parse(text, "nodegroup")
    assert isinstance(parsed, ParsedProbe)
    (forest,) = parsed.facts
    assert isinstance(forest, DeclaredForest)
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(forest))
    assert json.loads(render(state.snapshot.forest)) == json.loads(text)


def test_the_topology_document_tells_reasons_capacity_and_sources():
    """What `/node_group` may not say."""
    state = discovery(Mode.SWITCHBOX)
    state.advance(
        10.0,
        ManagerReported(managed({"box": ["a", "b", "c"]})),
        *ring(["a", "b"]),
        report("stray", ["ghost"]),
        WorkerRefused(NodeName("a"), "wrong-node", "a token of b reported for a"),
    )
    said = document(state.snapshot, "switchbox", now_s=12.5)
    (box,) = said["groups"]
    assert box["capacity"] == {"nodes": 2, "ready": 2, "gpus": 16, "ready_gpus": 16}
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


def test_depth_cuts_below_that_many_levels():
    """Depth 0 is the roots alone; capacity still counts everything."""
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(OURS))
    flat = document(state.snapshot, "config", 0.0, depth=0)
    assert [g["child"] for g in flat["groups"]] == [[], []]
    assert flat["groups"][1]["capacity"]["nodes"] == 3
    one = document(state.snapshot, "config", 0.0, depth=1)
    assert one["groups"][1]["child"][1]["child"] == []


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
    found = path_to(forest, NodeName("b"))
    assert found is not None
    pruned = document(state.snapshot, "config", 0.0, groups=found)["groups"]
    assert [n["name"] for n in pruned[0]["child"][0]["child"]] == ["b"]
    assert path_to(forest, NodeName("stray")) == ()
    assert path_to(forest, NodeName("nobody")) is None


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
