"""The judge of the files of Slurm, held to the answers of a real slurmctld 26.05.5."""

import re
from pathlib import Path

import pytest

from tests.publish.slurm.verdicts import refusal

ANSWERS = Path(__file__).resolve().parents[4] / "shared" / "data" / "fabrics" / "slurm"
ANSWERS /= "slurmctld-accepts-and-refuses.26.05.5.txt"


def tree(*rows: str) -> str:
    """A topology.yaml of one tree; a row is `name: nodes` or `name > children`."""
    text = "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n"
    for row in rows:
        name, sign, what = re.split(r" ?(:|>) ?", row, maxsplit=1)
        text += f'      - switch: "{name}"\n'
        text += f'        {"nodes" if sign == ":" else "children"}: "{what}"\n'
    return text


def blocks(sizes: str, *rows: str) -> str:
    text = "- topology: b\n  block:\n" + (f"    block_sizes: [{sizes}]\n" if sizes else "")
    text += "    blocks:\n"
    for row in rows:
        name, nodes = row.split(":")
        text += f'      - block: {name}\n        nodes: "{nodes}"\n'
    return text


ROOT, S1, S2 = "r > s[1-2]", "s1: gpu-[01-08]", "s2: gpu-[09-16]"
GOOD = tree(ROOT, S1, S2)
CONF = (
    "SwitchName=r Switches=s[1-2]\n"
    "SwitchName=s1 Nodes=gpu-[01-08]\n"
    "SwitchName=s2 Nodes=gpu-[09-16]\n"
)
FOUR = ("b1:gpu-[01-04]", "b2:gpu-[05-08]")
CASES: dict[str, str] = {
    "node in two leaves": tree(ROOT, S1, "s2: gpu-[08-16]"),
    "duplicate switch": tree(ROOT, S1, S2, S2),
    "unknown node": tree(ROOT, S1, "s2: gpu-[09-17]"),
    "undefined child": tree("r > s[1-3]", S1, S2),
    "two roots": tree(S1, S2),
    "switch with two parents": tree("r1 > s[1-2]", "r2 > s2", S1, S2),
    "cycle": tree("r > s", "s > r"),
    "switch with nodes and children": GOOD.replace(
        'children: "s[1-2]"', 'children: "s2"\n        nodes: "gpu-[01-08]"'
    ),
    "empty leaf": tree(ROOT, S1, S2, "s3: "),
    "long switch name": tree(f"r > s2,{'x' * 65}", f"{'x' * 65}: gpu-[01-08]", S2),
    "unknown key": GOOD + "  colour: red\n",
    "no cluster_default": GOOD.replace("  cluster_default: true\n", ""),
    "duplicate topology name": GOOD + GOOD,
    "partition names unknown topology": GOOD,
    "not yaml": "{[",
    "empty file": "",
    "topology key not first": "- cluster_default: true\n  topology: t\n" + GOOD.split("true\n")[1],
    "block sizes 4 6": blocks("4, 6", *FOUR),
    "block sizes 4 12": blocks("4, 12", *FOUR),
    "block smaller than base": blocks("4, 8", FOUR[0], "b2:gpu-[05-07]"),
    "block larger than base": blocks("4, 8", "b1:gpu-[01-05]", "b2:gpu-[06-09]"),
    "blocks not filling the last aggregate": blocks("4, 16", *FOUR, "b3:gpu-[09-12]"),
    "node in two blocks": blocks("4", FOUR[0], "b2:gpu-[04-08]"),
    "empty block placeholder": blocks("4, 8", FOUR[0], "b2:", "b3:gpu-[05-08]"),
    "no block_sizes": blocks("", FOUR[0]),
    "topology.conf tree": CONF,
    "topology.conf block": "BlockName=b1 Nodes=gpu-[01-04]\nBlockSizes=4,8\n",
    "topology.conf tree, BlockName inside": CONF + "BlockName=b1 Nodes=gpu-01\n",
    "yaml and conf both": GOOD,
    "leading digits and dots in names": tree("r > s2,leaf.01_a", "leaf.01_a: gpu-[01-08]", S2),
    "slash and colon in a name": GOOD.replace('"s1"', '"su1/leaf:01"').replace(
        "s[1-2]", "s2,su1/leaf:01"
    ),
    "ring of 17": '- topology: t\n  ring: {rings: [{ring: r0, nodes: "n[01-17]"}]}\n',
}


def verdict(title: str) -> str | None:
    plugin = "yaml"
    if title.startswith("topology.conf"):
        plugin = "block" if title.endswith("block") else "tree"
    partitions = ("elsewhere",) if title.startswith("partition") else ()
    return refusal(CASES[title], plugin=plugin, partitions=partitions)


@pytest.mark.skipif(not ANSWERS.exists(), reason="no recorded answers of slurmctld 26.05.5 here")
def test_each_answer_of_a_real_slurmctld_is_that_of_the_judge() -> None:
    answers = dict(re.findall(r"^## (.+): (UP|REFUSED)$", ANSWERS.read_text(), re.MULTILINE))
    assert len(answers) == 32
    assert answers.keys() == CASES.keys()
    judged = {title: "REFUSED" if verdict(title) else "UP" for title in CASES}
    assert judged == answers


def test_a_refused_file_is_told_in_the_words_of_slurm() -> None:
    assert verdict("cycle") == "not a tree"
    assert verdict("block sizes 4 6") == "Invalid BlockSizes"
    assert verdict("two roots") is None
