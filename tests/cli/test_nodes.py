"""`topo nodes`: every node on a row, those that one asks for, and the forms for programs."""

import csv
import json
from typing import Any

import pytest
import yaml

from tests.cli import samples
from tests.cli.conftest import FakeMaster, Topo
from topo.cli.exit_codes import Exit
from topo.model.rest.topology import NodeDocument


def cluster() -> Any:
    """Two dragonflies of two nodes: one idle, one held, one cordoned, one cut; and a lone one."""
    document = samples.troubled()
    box = document["groups"][0]
    for number, fly in enumerate(box["child"]):
        fly["path"] = [box["name"], fly["name"]]
        for node in fly["child"]:
            gpu_type = "MXC550" if number else "MXC500"
            node.update({"gpu_type": gpu_type, "free_gpus": 8, "since_s": 7200.0})
    (_, held), (cut, cordoned) = (fly["child"] for fly in box["child"])
    held |= {"free_gpus": 2, "held_gpus": 6}
    cut |= {"free_gpus": 0, "since_s": 9.4}
    cordoned |= {"free_gpus": 0, "cordoned": True, "since_s": None}
    return document


STALE = "its worker is stale: no report within 3 beats (30 s)"


@pytest.fixture(autouse=True)
def _cluster(fake_master: FakeMaster) -> None:
    fake_master.document = cluster()


def names(topo: Topo, *more: str) -> list[str]:
    shown = topo("nodes", "-o", "name", *more)
    assert shown.exit_code == Exit.OK
    return [str(line) for line in shown.stdout.splitlines()]


def test_a_row_has_group_status_gpus_since_when_and_why(topo: Topo) -> None:
    lines = [" ".join(line.split()) for line in topo("nodes").stdout.splitlines()]
    assert lines == [
        "node group status GPUs free held since why",
        "node-1 dragonfly-0a1b2c3d ● Ready 8 8 2 h",
        "node-2 dragonfly-0a1b2c3d ● Ready 8 2 6 2 h",
        "node-3 dragonfly-4e5f6a7b ✗ NotReady 8 0 9.4 s the link to node-4 is down on this side",
        "node-4 dragonfly-4e5f6a7b ● Ready, cordoned 8 0",
        f"node-9 ✗ NotReady 0 0 {STALE}; it sees no peer",
        "",
        "5 nodes, 3 Ready · 32 GPUs, 10 free · 6 held",
    ]


def test_pools_and_shared_cards_have_columns_where_there_are_any(
    topo: Topo, fake_master: FakeMaster
) -> None:
    document = cluster()
    first = document["groups"][0]["child"][0]["child"][0]
    cards = {"resource": "metax-tech.com/sgpu", "allocatable": 32, "used": 5}
    first |= {"pool": "training", "shared": [cards], "free_gpus": 0, "gpus": 0}
    fake_master.document = document
    lines = [" ".join(line.split()) for line in topo("nodes").stdout.splitlines()]
    assert lines[0] == "node group status GPUs free held pool shared since why"
    assert lines[1] == (
        "node-1 dragonfly-0a1b2c3d ● Ready 0 0 training metax-tech.com/sgpu 5/32 2 h"
    )


def test_a_ready_node_with_a_degraded_link_says_so(topo: Topo, fake_master: FakeMaster) -> None:
    slow = {"code": "link-degraded", "subjects": ["node-1"], "text": "link 3 is slow", "fix": ""}
    fake_master.document = {**cluster(), "conflicts": [slow]}
    lines = [" ".join(line.split()) for line in topo("nodes").stdout.splitlines()]
    assert lines[1] == "node-1 dragonfly-0a1b2c3d ● Ready 8 8 2 h link 3 is slow"


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ((), ["node-1", "node-2", "node-3", "node-4", "node-9"]),
        (("node-2", "node-4"), ["node-2", "node-4"]),
        (("node-[12]", "--free", "3"), ["node-1"]),
        (("*-9",), ["node-9"]),
        (("node?",), []),
        (("--status", "notready"), ["node-3", "node-9"]),
        (("--status", "Ready"), ["node-1", "node-2", "node-4"]),
        (("--gpu-type", "MXC550"), ["node-3", "node-4"]),
        (("--free", "2"), ["node-1", "node-2"]),
        (("--free", "3"), ["node-1"]),
        (("--held",), ["node-2"]),
        (("--not-held", "--status", "ready"), ["node-1", "node-4"]),
        (("--cordoned",), ["node-4"]),
        (("--not-cordoned", "--free", "1"), ["node-1", "node-2"]),
        (("--free", "9"), []),
    ],
)
def test_only_the_nodes_that_fit_every_filter_are_listed(
    topo: Topo, more: tuple[str, ...], found: list[str]
) -> None:
    assert names(topo, *more) == found


def test_a_group_is_asked_of_the_master_and_has_no_node_without_a_place(
    topo: Topo, fake_master: FakeMaster
) -> None:
    assert names(topo, "--group", "box/fly") == ["node-1", "node-2", "node-3", "node-4"]
    assert dict(fake_master.asked[-1].query) == {"group": "box/fly"}


def test_programs_get_every_field_under_the_name_that_the_tree_has_for_it(topo: Topo) -> None:
    told = json.loads(topo("nodes", "--held", "-o", "json").stdout)
    assert told == yaml.safe_load(topo("nodes", "--held", "-o", "yaml").stdout)
    node = {
        "name": "node-2",
        "group": ["switchbox-sample1", "dragonfly-0a1b2c3d"],
        "status": "Ready",
        "gpu_type": "MXC500",
        "gpus": 8,
        "free_gpus": 2,
        "used_gpus": 0,
        "held_gpus": 6,
        "cordoned": False,
        "since_s": 7200.0,
        "pool": "",
        "shared": [],
        "why": "",
    }
    assert told == {"generation": 13, "nodes": [node]}
    assert node.keys() - NodeDocument.__annotations__.keys() == {"group", "why"}
    (row,) = csv.DictReader(topo("nodes", "--held", "-o", "csv").stdout.splitlines())
    path = "switchbox-sample1/dragonfly-0a1b2c3d"
    written = {"group": path, "shared": ""}
    assert row == {key: str(value) for key, value in node.items()} | written


def test_no_node_is_said_to_be_none(topo: Topo) -> None:
    assert topo("nodes", "--free", "9").stdout == "no node is like that\n"
    assert topo("nodes", "--status", "bad").exit_code == Exit.USAGE


def test_a_name_of_no_node_and_a_type_of_no_gpu_are_refused_with_the_nearest(topo: Topo) -> None:
    """An empty list would read as "it is there, and not like that"."""
    for arguments, what, step in (
        (["node-11"], "there is no node 'node-11'", "next: did you mean node-1?"),
        (["node-1", "zzz"], "there is no node 'zzz'", "next: `topo nodes -o name` lists them"),
        (["--gpu-type", "MXC5"], "of the type 'MXC5'", "next: did you mean MXC5"),
        (["--gpu-type", "H100"], "of the type 'H100'", "next: there are MXC500, MXC550"),
    ):
        shown = topo("nodes", *arguments)
        assert (shown.exit_code, shown.stdout) == (Exit.REFUSED, "")
        assert what in shown.stderr
        assert step in shown.stderr
    assert topo("nodes", "zzz*").exit_code == Exit.OK, "a pattern may fit nothing"
