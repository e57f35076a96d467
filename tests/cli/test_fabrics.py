"""`topo` of a cluster with several fabrics."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli import gang_samples, samples
from tests.cli.conftest import FakeMaster, Topo
from topo.cli.exit_codes import Exit

FABRICS = [
    {"fabric": "scale-up", "kinds": ["switchbox", "dragonfly"], "groups": 3, "nodes": 4},
    {"fabric": "scale-out", "kinds": ["leaf"], "groups": 2, "nodes": 4},
]


def test_a_tree_names_the_other_fabric_and_shows_it_where_it_is_asked_for(
    topo: Topo, fake_master: FakeMaster
) -> None:
    fake_master.document["fabrics"] = FABRICS
    assert "2 groups with --fabric scale-out" in topo("tree").stdout
    fake_master.document = {**samples.healthy(), "fabric": "scale-out"}
    shown = topo("tree", "--fabric", "scale-out").stdout
    assert fake_master.asked[-1].query["fabric"] == "scale-out"
    assert "scale-out alone" in shown.splitlines()[0]


def test_a_node_is_shown_with_its_groups_in_each_fabric(
    topo: Topo, fake_master: FakeMaster
) -> None:
    places = [
        {"fabric": "scale-up", "path": ["box-1", "fly-2"], "kinds": ["switchbox", "dragonfly"]},
        {"fabric": "scale-out", "path": ["leaf-7"], "kinds": ["leaf"]},
    ]
    fake_master.document["node"] = {**samples.detail(), "places": places}
    shown = topo("node", "node-3").stdout
    assert "its groups in each fabric" in shown
    assert "leaf-7" in shown


def test_slurm_has_a_topology_of_each_fabric(
    topo: Topo, fake_master: FakeMaster, tmp_path: Path
) -> None:
    fake_master.document["fabrics"] = FABRICS
    there = tmp_path / "topology.yaml"
    topo("export", "-f", "slurm-yaml", "-o", str(there))
    names = [each["topology"] for each in yaml.safe_load(there.read_text())]
    assert names == ["fabric", "scale-out", "dragonfly"]
    assert [
        each.query.get("fabric") for each in fake_master.asked if each.path == "/v1/topology"
    ] == [None, "scale-out"]
    for of_one in ("slurm-tree", "slurm-block"):
        assert "scale-out" not in topo("export", "-f", of_one).stdout


def test_a_move_and_a_group_of_another_fabric_name_it(topo: Topo, fake_master: FakeMaster) -> None:
    move = {
        "generation": 13,
        "what": "fabric-moved",
        "subject": "node-3",
        "before": "leaf-7",
        "after": "leaf-8",
        "fabric": "scale-out",
    }
    gone = {**move, "what": "fabric-group-removed", "subject": "leaf-7", "before": "leaf"}
    told = {"from": 12, "to": 13, "changes": [move, {**gone, "after": ""}]}
    fake_master.broken["/v1/topology/diff"] = (200, json.dumps(told), {})
    shown = topo("diff").stdout
    assert "node-3  leaf-7" in shown
    assert "leaf-8 in scale-out" in shown
    assert "leaf-7  group removed: leaf in scale-out" in shown


@pytest.mark.parametrize(
    ("form", "kinds", "count"), [("kueue", "switchbox-dragonfly", 4), ("nfd", "dragonfly", 4)]
)
def test_a_format_with_room_for_several_has_each_fabric_under_its_name(
    topo: Topo, fake_master: FakeMaster, form: str, kinds: str, count: int
) -> None:
    alone = topo("export", "-f", form).stdout
    assert "scale-out" not in alone
    fake_master.document["fabrics"] = FABRICS
    shown = topo("export", "-f", form)
    assert f"scale-out-{kinds}" in shown.stdout
    made = list(yaml.safe_load_all(shown.stdout))
    assert len(made) == count
    assert shown.stderr == ""
    refused = topo("export", "-f", form, "--fabric", "scale-out")
    assert refused.exit_code == Exit.USAGE
    assert "only formats of one topology have" in refused.stderr


def test_a_format_of_one_topology_says_of_which_fabric_it_is_and_writes_the_one_that_is_named(
    topo: Topo, fake_master: FakeMaster
) -> None:
    assert topo("export", "-f", "koordinator").stderr == ""
    fake_master.document["fabrics"] = FABRICS
    tree = topo("export", "-f", "koordinator")
    assert "it is scale-up, the tree; --fabric scale-out writes the other" in tree.stderr
    assert "metax-tech.com/dragonfly" in tree.stdout
    first = topo("export", "-f", "koordinator", "--fabric", "scale-up")
    assert (first.stdout, first.stderr) == (tree.stdout, "")
    other = topo("export", "-f", "koordinator", "--fabric", "scale-out").stdout
    assert "metax-tech.com/scale-out-dragonfly" in other
    assert "metax-tech.com/dragonfly" not in other
    assert "SwitchName=" in topo("export", "-f", "slurm-tree", "--fabric", "scale-out").stdout
    assert fake_master.asked[-1].query["fabric"] == "scale-out"
    fake_master.broken["/v1/topology/graph"] = (200, "graph fabric {}", {})
    topo("export", "-f", "dot", "--fabric", "scale-out")
    assert fake_master.asked[-1].query["fabric"] == "scale-out"


def test_the_leaf_that_a_job_is_inside_is_named_wherever_a_plan_is_shown(
    topo: Topo, fake_master: FakeMaster
) -> None:
    path = ["ib-spine-01", "ib-su1-leaf-01"]
    inside = {"kind": "leaf", "name": path[-1], "path": path, "fabric": "scale-out"}
    fake_master.placement = {**samples.placement(), "inside": inside}
    fake_master.gangs = [gang_samples.gang(within="leaf", inside=inside)]
    fake_master.holds = [{**samples.hold(), "inside": inside}]
    words = "inside leaf ib-spine-01/ib-su1-leaf-01 of scale-out"
    for asked in (
        ("place", "--pods", "4", "--gpus", "8", "--within", "leaf"),
        ("holds", "show", "h-1"),
        ("why", "pytorch-demo"),
    ):
        assert words in " ".join(topo(*asked).stdout.split()), asked
