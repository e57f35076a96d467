"""The vendor's document."""

import json
from pathlib import Path

import pytest

from tests.builders import declared, discovery, report
from topo.discovery.modes import Mode
from topo.facts import parse
from topo.model.observation import (
    ConfigLoaded,
    DeclaredForest,
    ParsedProbe,
)
from topo.publish.nodegroup import render

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
