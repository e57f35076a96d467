"""Slurm's files of the vendor's shape and of odd ones, and what is refused."""

import pytest

from tests.publish.forests import VENDOR, box, fly, forest, group, node
from tests.publish.slurm.verdicts import refusal
from topo.model.conditions.tree import NodeCondition
from topo.model.errors import Refusal
from topo.model.forest import Forest, Reason, Unplaced
from topo.model.ids import SCALE_OUT, SCALE_UP, Kind
from topo.publish.slurm.document import SlurmChoice, SlurmFile, SlurmFormat, slurm_file
from topo.publish.slurm.files import HEADER
from topo.publish.slurm.reading import read_yaml
from topo.publish.slurm.topology import Unit

TREE = """\
SwitchName=cluster Switches=switchbox-[1-2]
SwitchName=switchbox-1 Switches=dragonfly-[1-2]
SwitchName=dragonfly-1 Nodes=node-[1-2]
SwitchName=dragonfly-2 Nodes=node-[3-4]
SwitchName=switchbox-2 Switches=dragonfly-[3-4]
SwitchName=dragonfly-3 Nodes=node-[5-6]
SwitchName=dragonfly-4 Nodes=node-[7-8]
"""
BLOCK = """\
BlockName=dragonfly-1 Nodes=node-[1-2]
BlockName=dragonfly-2 Nodes=node-[3-4]
BlockName=dragonfly-3 Nodes=node-[5-6]
BlockName=dragonfly-4 Nodes=node-[7-8]
BlockSizes=2,4,8
"""
YAML = """\
---
- topology: "fabric"
  cluster_default: true
  tree:
    switches:
      - switch: "cluster"
        children: "dragonfly-1,node-c"
      - switch: "dragonfly-1"
        nodes: "a,b"
      - switch: "node-c"
        nodes: "c"
- topology: "dragonfly"
  cluster_default: false
  block:
    block_sizes:
      - 2
    blocks:
      - block: "dragonfly-1"
        nodes: "a,b"
"""


def written(
    world: Forest, of: SlurmFormat = SlurmFormat.TREE, there: str = "", **choice: object
) -> str:
    made = slurm_file(world, SlurmChoice(format=of, **choice), there)  # type: ignore[arg-type]
    assert isinstance(made, SlurmFile), made
    assert made.text.startswith(HEADER)
    return made.text.removeprefix(HEADER)


def refused(world: Forest, of: SlurmFormat, there: str = "", **choice: object) -> Refusal:
    made = slurm_file(world, SlurmChoice(format=of, **choice), there)  # type: ignore[arg-type]
    assert isinstance(made, Refusal)
    assert made.fix
    return made


def test_dragonflies_of_two_nodes_in_switchboxes() -> None:
    assert written(VENDOR) == TREE
    assert written(VENDOR, SlurmFormat.BLOCK) == BLOCK


def test_a_node_in_no_group_is_a_leaf_alone_and_no_block() -> None:
    world = forest(fly("dragonfly-1", ["a", "b"]), unplaced=["c"])
    assert written(world, SlurmFormat.YAML) == YAML
    made = slurm_file(world, SlurmChoice(format=SlurmFormat.BLOCK), "")
    assert isinstance(made, SlurmFile)
    assert made.in_no_block == ("c",)


def test_each_fabric_has_a_topology_of_its_own() -> None:
    """Dragonflies across two leaves: the tree as it is, the leaves beside it; and the other way."""
    flies = forest(fly("fly-1", ["a", "b"]), fly("fly-2", ["c", "d"]))
    leaves = forest(
        group("leaf-1", Kind("leaf"), 1, [node("a"), node("c")]),
        group("leaf-2", Kind("leaf"), 1, [node("b"), node("d")]),
    )
    yaml_of = SlurmChoice(format=SlurmFormat.YAML)
    made = slurm_file(flies, yaml_of, "", {SCALE_OUT: leaves})
    assert isinstance(made, SlurmFile)
    found = read_yaml(made.text)
    assert not isinstance(found, Refusal)
    assert [each.name for each in found] == ["fabric", "scale-out", "dragonfly"]
    assert set(found[1].units) == {
        Unit("cluster", switches=("leaf-1", "leaf-2")),
        Unit("leaf-1", ("a", "c")),
        Unit("leaf-2", ("b", "d")),
    }
    assert refusal(made.text, partitions=("fabric", "scale-out", "dragonfly")) is None
    again = slurm_file(flies, yaml_of, made.text, {SCALE_OUT: leaves})
    assert again == made
    assert isinstance(slurm_file(flies, yaml_of, made.text), Refusal), "a partition may name it"
    other = slurm_file(leaves, yaml_of, "", {SCALE_UP: flies})
    assert isinstance(other, SlurmFile)
    assert [f'topology: "{name}"' in other.text for name in ("leaf", "dragonfly")] == [True, True]
    blocks = SlurmChoice(format=SlurmFormat.BLOCK)
    assert slurm_file(leaves, blocks, "", {SCALE_UP: flies}) == slurm_file(leaves, blocks, "")


def test_a_name_that_is_none_in_a_hostlist_is_left_out_and_told() -> None:
    made = slurm_file(forest(fly("f", ["a", "b,c"])), SlurmChoice(format=SlurmFormat.TREE), "")
    assert isinstance(made, SlurmFile)
    assert made.unnameable == ("b,c",)
    assert "SwitchName=f Nodes=a\n" in made.text


def test_groups_of_three_and_two_begin_at_runs_of_four() -> None:
    flies = {f"fly-{n}": [f"n{2 * n}", f"n{2 * n + 1}"] for n in range(5)}
    three = dict(list(flies.items())[:3])
    world = forest(box("a", three), box("b", dict(list(flies.items())[3:])))
    text = written(world, SlurmFormat.BLOCK)
    names = [line.split()[0].removeprefix("BlockName=") for line in text.splitlines()[:-1]]
    first = ["fly-0", "fly-1", "fly-2", "fly-0.empty-1"]
    assert names == [*first, "fly-3", "fly-4", "fly-3.empty-1", "fly-3.empty-2"]
    assert text.endswith("BlockSizes=2,8,16\n")
    assert written(world, SlurmFormat.BLOCK, base=3).endswith("BlockSizes=3,12,24\n")


def test_a_group_that_is_called_otherwise_keeps_its_name_in_the_file() -> None:
    world = forest(fly("pair-one", ["node-1", "node-2"]), fly("dragonfly-2", ["node-3", "node-4"]))
    there = written(forest(fly("dragonfly-1", ["node-1", "node-2"]), world.roots[1]))
    assert written(world, there=there) == there


def test_a_name_of_the_file_that_no_group_has_stays_as_an_empty_leaf_until_it_is_forgotten() -> (
    None
):
    there = written(VENDOR)
    world = forest(VENDOR.roots[0])
    text = written(world, there=there)
    assert text.endswith(
        'SwitchName=dragonfly-3 Nodes=""\nSwitchName=dragonfly-4 Nodes=""\n'
        'SwitchName=switchbox-2 Nodes=""\n'
    )
    assert written(world, there=text, is_forgetful=True) == written(world)


def test_names_of_a_file_that_people_wrote_stay() -> None:
    there = "switchname=top switches=su[1-2]  # by hand\nSwitchName=su1 \\\n Nodes=node-[1-2]\n"
    there += "SwitchName=su2 Nodes=node-[3-4] LinkSpeed=100\n"
    world = forest(fly("x", ["node-1", "node-2"]), fly("y", ["node-3", "node-4"]))
    assert "SwitchName=su1 Nodes=node-[1-2]\nSwitchName=su2 Nodes=node-[3-4]\n" in written(
        world, there=there
    )


def test_a_node_of_which_nothing_is_known_yet_stays_where_the_file_has_it() -> None:
    there = written(VENDOR)
    boxes = [
        box("switchbox-1", {"dragonfly-1": ["node-1"], "dragonfly-2": ["node-3", "node-4"]}),
        VENDOR.roots[1],
    ]
    silent = Unplaced(node("node-2"), Reason(NodeCondition.NO_WORKER, "no worker"))
    assert written(Forest(tuple(boxes), (silent,)), there=there) == there
    why = Reason("no-peer", "its worker sees no peer")
    seen = Forest(tuple(boxes), (Unplaced(node("node-2"), why),))
    assert "SwitchName=dragonfly-1 Nodes=node-1\n" in written(seen, there=there)


def test_a_master_that_knows_nothing_yet_changes_no_file() -> None:
    there = written(VENDOR)
    silent = Reason(NodeCondition.NO_WORKER, "no worker")
    world = Forest((), tuple(Unplaced(node(f"node-{n}"), silent) for n in range(1, 9)))
    assert "no worker has reported" in refused(world, SlurmFormat.TREE, there).what
    assert "knows no node" in refused(Forest(), SlurmFormat.TREE, there).what


def test_a_topology_that_a_partition_may_name_is_not_dropped() -> None:
    world = forest(fly("dragonfly-1", ["a", "b"]))
    there = written(world, SlurmFormat.YAML) + "- topology: plain\n  flat: true\n"
    kept = written(world, SlurmFormat.YAML, there)
    assert kept.endswith('- topology: "plain"\n  cluster_default: false\n  flat: true\n')
    other = forest(group("leaf-1", Kind("leaf"), 1, [node("a"), node("b")]))
    assert "topology dragonfly" in refused(other, SlurmFormat.YAML, there).what
    forgotten = written(other, SlurmFormat.YAML, there, is_forgetful=True)
    assert '"leaf"' in forgotten
    assert '"dragonfly"' not in forgotten
    assert forgotten.endswith('- topology: "plain"\n  cluster_default: false\n  flat: true\n')


@pytest.mark.parametrize(
    ("of", "there", "word"),
    [
        (SlurmFormat.TREE, "BlockName=b Nodes=a\n", "blocks"),
        (SlurmFormat.BLOCK, TREE, "switches"),
        (SlurmFormat.TREE, "SwitchName=s Nodes=a[\n", "hostlist"),
        (SlurmFormat.TREE, "hello\n", "no line"),
        (SlurmFormat.YAML, "a: b\n", "no list"),
        (SlurmFormat.YAML, "- [\n", ""),
    ],
)
def test_a_file_of_something_else_is_not_replaced(of: SlurmFormat, there: str, word: str) -> None:
    assert word in refused(VENDOR, of, there).what


def test_several_kinds_of_groups_are_several_topologies_and_not_one_file_of_blocks() -> None:
    world = forest(
        fly("dragonfly-1", ["a", "b"]), group("leaf-1", Kind("leaf"), 1, [node("c"), node("d")])
    )
    assert "--kind dragonfly" in refused(world, SlurmFormat.BLOCK).fix
    assert "Nodes=c,d" in written(world, SlurmFormat.BLOCK, kinds=(Kind("leaf"),))
    text = written(world, SlurmFormat.YAML)
    assert [line for line in text.splitlines() if "topology:" in line] == [
        f'- topology: "{name}"' for name in ("fabric", "dragonfly", "leaf")
    ]
    assert "dragonfly, leaf" in refused(world, SlurmFormat.BLOCK, kinds=(Kind("pair"),)).fix


def test_groups_too_uneven_for_aligned_blocks_are_refused_with_numbers() -> None:
    many = {f"fly-{n}": [f"n{n}"] for n in range(600)}
    roots = [box("big", many), *(fly(f"alone-{n}", [f"m{n}"]) for n in range(600))]
    assert "601" not in (why := refused(forest(*roots), SlurmFormat.BLOCK).what)
    assert "1200 groups of kind dragonfly need 615,424 blocks" in why
