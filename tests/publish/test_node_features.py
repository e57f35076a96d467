"""The objects of Node Feature Discovery: a node's groups as labels that NFD's master makes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.publish.forests import LEAF, VENDOR, fly, forest, group, node
from topo.model.forest import Forest
from topo.model.ids import SCALE_OUT, Kind
from topo.publish.node_features import manifest, node_features
from topo.publish.node_labels import label_keys, node_labels

SAMPLE = Path(__file__).resolve().parents[3] / "shared/data/fabrics/outputs/nodefeature.yaml"
KEYS = label_keys("metax-tech.com", {})


def objects(of: Forest) -> list[Any]:
    return list(yaml.safe_load_all(manifest(node_features(of, KEYS, "nfd"))))


def test_each_node_in_a_group_has_an_object_with_the_labels_that_we_would_write() -> None:
    made = objects(VENDOR)
    shown = {each["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"]: each for each in made}
    labels = node_labels(VENDOR, KEYS)
    assert {node: each["spec"]["labels"] for node, each in shown.items()} == labels
    one = shown["node-1"]
    assert one["metadata"]["name"] == "topo-node-1"
    assert one["metadata"]["namespace"] == "nfd"
    groups = one["spec"]["features"]["attributes"]["topo.groups"]["elements"]
    assert groups == {"switchbox": "switchbox-1", "dragonfly": "dragonfly-1"}
    leaves = {SCALE_OUT: forest(group("leaf-7", LEAF, 1, [node("node-1")]))}
    (one, *_) = node_features(VENDOR, KEYS, "nfd", leaves)
    assert one["spec"]["labels"]["metax-tech.com/scale-out-leaf"] == "leaf-7"
    elements = one["spec"]["features"]["attributes"]["topo.groups"]["elements"]
    assert elements == {**groups, "scale-out-leaf": "leaf-7"}


def test_a_node_in_no_group_and_one_that_no_label_can_name_have_none() -> None:
    made = objects(forest(fly("dragonfly-1", ["a", "b" * 64, "B_"]), unplaced=["c"]))
    assert [each["metadata"]["name"] for each in made] == ["topo-a"]


def test_equal_forests_are_equal_bytes() -> None:
    once, again = (manifest(node_features(VENDOR, KEYS, "nfd")) for _ in range(2))
    assert once == again
    assert manifest(node_features(VENDOR, {Kind("leaf"): "a/leaf"}, "nfd")) == ""


@pytest.mark.skipif(not SAMPLE.exists(), reason="no sample of NFD's object here")
def test_an_object_has_the_form_of_nfd_s_own_sample() -> None:
    sample = yaml.safe_load(SAMPLE.read_text())
    made = objects(VENDOR)[0]
    assert [made[key] for key in ("apiVersion", "kind")] == [
        sample[key] for key in ("apiVersion", "kind")
    ]
    assert made["spec"].keys() == sample["spec"].keys()
    assert made["spec"]["features"].keys() == sample["spec"]["features"].keys()
    assert "nfd.node.kubernetes.io/node-name" in sample["metadata"]["labels"]
    assert json.loads(json.dumps(made)) == made
