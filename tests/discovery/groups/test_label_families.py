"""Label sets of real clusters and of the writers' documentation give the groups that are true."""

import json
from pathlib import Path

import pytest

from tests.builders import shape
from tests.discovery.labels import found
from topo.discovery.label_families import AUTO, FAMILIES, LabelSource
from topo.model.ids import NODE
from topo.publish.names import LABEL_VALUE, is_dns_name

DATA = Path(__file__).resolve().parents[4] / "shared/data/fabrics/labels"
NO_DATA = "the label sets of others are not here"
TRUTH = {
    "01-oke-gb300-4-nodes": [4],
    "02-oke-missing-top-level": [],
    "03-eks-p4d": [1],
    "04-eks-3-and-4-layers": [1, 2],
    "05-coreweave-empty-values": [],
    "06-coreweave-expected-and-current": [2],
    "07-gke-block-subblock-host": [1, 2],
    "08-gke-only-block": [1],
    "09-gke-old-daemon": [2],
    "10-alibaba-lingjun": [1, 2],
    "11-crusoe": [1],
    "12-topograph-2025": [1],
    "13-topograph-2026-02": [1],
    "14-topograph-1.0": [1, 2],
    "15-nvl72-clique": [1, 2],
    "16-ascend-a3-and-manual-groups": [1, 2],
    "17-ascend-a2-domainid": [1, 2],
    "18-unifabric": [4],
    "19-gpustack": [1, 2],
    "20-equal-rack-names-in-two-zones": [],
    "21-aks": [],
}
"""The sizes of the innermost groups. 20 has keys of an operator's own, 21 no fabric."""


ANNOTATED = {
    "a3-in-super-pod": ("0", ""),
    "a3-query-failed": ("", ""),
    "a5-rack": ("3", "12"),
    "a5-driver-says-none": ("", ""),
    "a2-no-super-pod": ("", ""),
}
"""By form of the device plugin's annotations the super pod and the rack that they mean."""


@pytest.mark.parametrize("form", ANNOTATED)
def test_annotations_of_ascends_device_plugin_stand_for_labels_that_are_not_there(form) -> None:
    """Written always: an id that stands for none is none."""
    file = DATA.parent / "ascend/node-annotations.forms.json"
    if not file.exists():
        pytest.skip(NO_DATA)
    stated = AUTO.relevant({}, json.loads(file.read_text())[form])
    state = found([{"name": node, "labels": dict(stated)} for node in ("a", "b")])
    place = "/".join(filter(None, ANNOTATED[form]))
    assert shape(state) == {place: ["a", "b"]}


def test_a_label_counts_before_the_annotation_that_says_the_same() -> None:
    """And an annotation is read for the families that are read, not else."""
    label = {"huawei.com/topotree.superpodid": "4"}
    assert dict(AUTO.relevant(label, {"superPodID": "0", "serverIndex": "1"})) == label
    assert LabelSource().relevant(label, {"superPodID": "0"}) == ()


@pytest.mark.parametrize("name", TRUTH)
def test_real_label_sets_give_their_true_groups(name: str) -> None:
    """By themselves: the family is found, and nodes that nobody knows share nothing."""
    file = DATA / f"{name}.json"
    if not file.exists():
        pytest.skip(NO_DATA)
    state = found(json.loads(file.read_text())["nodes"])
    groups = {path: members for path, members in shape(state).items() if path}
    assert sorted(map(len, groups.values())) == TRUTH[name], shape(state)


def test_no_two_families_are_called_alike_and_every_key_is_one_of_kubernetes() -> None:
    """A name of the setting means one family, and a key can stand on a node."""
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        for key in family.keys:
            prefix, _, name = key.rpartition("/")
            assert is_dns_name(prefix), key
            assert LABEL_VALUE.valid.fullmatch(name), key


def test_the_levels_of_a_family_have_kinds_of_their_own_and_one_that_is_needed() -> None:
    """A tier of HyperNodes has one kind of groups."""
    for family in FAMILIES:
        kinds = [level.kind for level in family.levels]
        assert len(set(kinds)) == len(kinds), family.name
        assert NODE not in kinds
        assert not all(level.is_optional for level in family.levels), family.name


def test_a_family_that_replaces_another_names_one_that_is_there() -> None:
    """And stands before it: of equals the newest is followed."""
    order = [family.name for family in FAMILIES]
    for family in FAMILIES:
        if family.replaces:
            assert order.index(family.name) < order.index(family.replaces)


def test_labels_of_zones_alone_are_no_fabric() -> None:
    """Nearly every cluster has them; they are read only where they are named."""
    assert "topology.kubernetes.io/zone" not in AUTO.keys
