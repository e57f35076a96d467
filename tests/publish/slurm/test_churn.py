"""Slurm's files through 1,000 random changes of a forest: they change only where it did."""

from collections.abc import Iterator
from random import Random

import pytest
import yaml

from tests.publish.forests import box, forest
from tests.publish.slurm.verdicts import doubts, hosts, refusal
from topo.model.forest import Forest, Group
from topo.publish.slurm.document import SlurmChoice, SlurmFile, SlurmFormat, slurm_file

Row = tuple[str, list[str], list[str]]
Shape = frozenset[object]
"""A group without its name: the nodes in it, or the shapes of its groups."""
CHANGES = 1000
NODES = [f"node-{number:02d}" for number in range(1, 25)]


class World:
    """Nodes at places (box, fly), and what the boxes and flies are called."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - examples, no secrets
        self.at: dict[str, tuple[int, int] | None] = {
            node: (number // 8, number // 2) for number, node in enumerate(NODES)
        }
        self.called: dict[object, str] = {}
        self.names = 0

    def change(self) -> None:
        act = self.random.choice(["move", "move", "lose", "add", "rename", "unplace", "alone"])
        known = sorted(self.at)
        if act == "add" or len(known) < 8:
            self.at.setdefault(self.random.choice(NODES), self._place())
        elif act == "move":
            self.at[self.random.choice(known)] = self._place()
        elif act == "lose":
            del self.at[self.random.choice(known)]
        elif act == "unplace":
            self.at[self.random.choice(known)] = None
        elif act == "alone":
            self.at[self.random.choice(known)] = (self.random.randrange(3), -1)
        else:
            place = self._place()
            self.names += 1
            key: object = self.random.choice([place, place[0]])
            # Equal names under two boxes happen, too.
            self.called[key] = f"called-{self.names // 2}"

    def _place(self) -> tuple[int, int]:
        fly = self.random.randrange(12)
        return fly // 4, fly

    def forest(self) -> Forest:
        inside: dict[tuple[int, int], list[str]] = {}
        for node, place in self.at.items():
            if place is not None:
                inside.setdefault(place, []).append(node)
        boxes: dict[int, dict[str, list[str]]] = {}
        alone: dict[int, list[str]] = {}
        for (number, fly), nodes in inside.items():
            if fly < 0:
                alone[number] = nodes
                continue
            name = self.called.get((number, fly), f"fly-{fly}")
            name = name if name not in boxes.get(number, {}) else f"{name}-{fly}"
            boxes.setdefault(number, {})[name] = nodes
        roots, taken = [], set[str]()
        for number in sorted({*boxes, *alone}):
            name = self.called.get(number, f"box-{number}")
            name = name if name not in taken else f"{name}-{number}"
            taken.add(name)
            roots.append(box(name, boxes.get(number, {}), alone.get(number, ())))
        return forest(*roots, unplaced=[node for node, place in self.at.items() if place is None])


def rows_of(entry: dict[str, dict[str, list[dict[str, str]]]], key: str, inner: str) -> list[Row]:
    rows = entry[key][inner]
    name = inner.removesuffix("es") if key == "tree" else "block"
    return [
        (row[name], hosts(row.get("nodes") or ""), hosts(row.get("children") or "")) for row in rows
    ]


def shapes(group: Group) -> Iterator[Shape]:
    """The shape of a group and of all below it."""
    below: list[object] = []
    for child in group.children:
        if isinstance(child, Group):
            inner = list(shapes(child))
            yield from inner
            below.append(inner[-1])
        else:
            below.append(child.name)
    yield frozenset(below)


def shapes_of(rows: list[Row], top: str) -> dict[Shape, str]:
    """The name of each shape in a file."""
    at = {name: (inside, below) for name, inside, below in rows}
    found: dict[Shape, str] = {}

    def shape(name: str) -> object:
        inside, below = at[name]
        if name.startswith("node-"):
            return inside[0]
        made = frozenset(inside) if inside else frozenset(map(shape, below))
        found[made] = name
        return made

    shape(top)
    return found


def written(world: Forest, before: str, *, forget: bool = False) -> str:
    choice = SlurmChoice(format=SlurmFormat.YAML, is_forgetful=forget)
    made = slurm_file(world, choice, before)
    assert isinstance(made, SlurmFile), made
    return made.text


@pytest.mark.parametrize("seed", [1, 2])
def test_a_file_changes_only_where_the_forest_did(seed: int) -> None:
    world = World(seed)
    now = world.forest()
    text = written(now, "")
    found = yaml.load(text, yaml.CSafeLoader)
    for number in range(CHANGES // 2):
        if number % 25 == 0:
            text = written(now, text, forget=True)
            found = yaml.load(text, yaml.CSafeLoader)
        world.change()
        before, then, was = text, now, found
        now = world.forest()
        text = written(now, before)
        assert refusal(text) is None
        assert written(now, text) == text
        found = yaml.load(text, yaml.CSafeLoader)
        tree, old = rows_of(found[0], "tree", "switches"), rows_of(was[0], "tree", "switches")
        nodes = {str(node.name) for node in now.nodes()}
        assert list(doubts(tree, nodes)) == []
        assert {name for name, *_ in old} <= {name for name, *_ in tree}
        named, were = shapes_of(tree, "cluster"), shapes_of(old, "cluster")
        assert set(now_shapes(now)) <= named.keys()
        both = named.keys() & were.keys() - {frozenset()}
        assert {shape: named[shape] for shape in both} == {shape: were[shape] for shape in both}
        rows, old_rows = {row[0]: row for row in tree}, {row[0]: row for row in old}
        assert all(rows[named[shape]][1] == old_rows[named[shape]][1] for shape in both)
        if set(now_shapes(now)) == set(now_shapes(then)) and nodes == {
            n.name for n in then.nodes()
        }:
            assert text == before
        blocks = rows_of(found[1], "block", "blocks")
        sizes = found[1]["block"]["block_sizes"]
        assert runs_are_groups(now, blocks, [size // sizes[0] for size in sizes])
        kept = {name for name, *_ in rows_of(was[1], "block", "blocks") if ".empty-" not in name}
        assert kept <= {name for name, *_ in blocks}


def now_shapes(world: Forest) -> list[Shape]:
    return [shape for root in world.roots for shape in shapes(root) if shape]


def runs_are_groups(world: Forest, blocks: list[Row], widths: list[int]) -> bool:
    """Whether each box with flies is alone in one run of an aggregated size, and all of it."""
    flies = {
        frozenset[object](node.name for node in fly.children): number
        for number, root in enumerate(world.roots)
        for fly in root.children
        if isinstance(fly, Group) and fly.children
    }
    at = [flies.get(frozenset[object](inside)) for _, inside, _ in blocks]
    assert sorted(number for number in at if number is not None) == sorted(flies.values())
    most = max(list(flies.values()).count(number) for number in flies.values())
    width = next(each for each in widths if each >= most)
    assert widths[-1] >= len(flies)
    runs = [set(at[start : start + width]) - {None} for start in range(0, len(at), width)]
    held = [number for run in runs for number in run]
    return all(len(run) <= 1 for run in runs) and len(held) == len(set(held))


def test_blocks_of_a_group_stay_where_they_are_when_another_group_loses_one() -> None:
    flies = {
        f"fly-{number}": [f"node-{2 * number}", f"node-{2 * number + 1}"] for number in range(3)
    }
    more = {
        f"fly-{number}": [f"node-{2 * number}", f"node-{2 * number + 1}"] for number in range(3, 6)
    }
    choice = SlurmChoice(format=SlurmFormat.BLOCK)
    first = slurm_file(forest(box("box-1", flies), box("box-2", more)), choice, "")
    assert isinstance(first, SlurmFile)
    del flies["fly-1"]
    second = slurm_file(forest(box("box-1", flies), box("box-2", more)), choice, first.text)
    assert isinstance(second, SlurmFile)
    places = [
        [line.split("=")[1].split()[0] for line in each.text.splitlines() if "BlockName" in line]
        for each in (first, second)
    ]
    assert places[0].index("fly-3") == places[1].index("fly-3") == 4
    assert places[1][-1] == "fly-1"
