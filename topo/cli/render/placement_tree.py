"""The groups of pods inside the tree: which groups are used, each node with its badge and pods."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rich.console import RenderableType
from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging, Outline
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import plural, room_bar
from topo.model.rest.placements import PodGroupDocument, RoomDocument
from topo.model.rest.topology import GroupDocument, is_group, walk

MAX_LEAVES = 64
"""With more nodes than this, those of one group of pods in one group of the tree share a line."""
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red", "white")
Path = tuple[str, ...]
_T = TypeVar("_T")


@dataclass(slots=True)
class _UsedGroup:
    """A used group: what is used below it, its nodes with pods by group of pods."""

    children: "dict[str, _UsedGroup]" = field(default_factory=dict)
    nodes: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))


def badge(group: PodGroupDocument, glyphs: Glyphs) -> Text:
    """Return the mark of a group of pods: a shape, a colour and its index."""
    index = group["index"]
    shape, colour = glyphs.badges[index % len(glyphs.badges)], _COLOURS[index % len(_COLOURS)]
    return Text().append(f"{shape}{index}", style=f"bold {colour}")


def render_trees(
    groups: Sequence[PodGroupDocument],
    capacity: Sequence[RoomDocument],
    roots: Sequence[GroupDocument],
    glyphs: Glyphs,
) -> Iterator[RenderableType]:
    """Yield one tree per root that the plan uses; `roots` are those groups of the topology.

    `capacity` is how full the used groups are, empty where the answer does not say. Where the
    topology does not know a node (it may have moved since), the plan's own words place it.
    O(vertices of the roots + nodes of the plan).
    """
    vertices = list(walk(roots))
    homes = {v["name"]: path[:-1] for path, v in vertices if not is_group(v)}
    known = {path: v for path, v in vertices if is_group(v)}
    stated = {domain["path"]: domain["kind"] for group in groups for domain in group["domains"]}
    top = _used(groups, homes)
    drawing = _Drawing(
        groups={group["index"]: group for group in groups},
        rooms={room["path"]: room for room in capacity},
        known=known,
        kinds=stated | {path: group["kind"] for path, group in known.items()},
        order={path: place for place, (path, _) in enumerate(vertices)},
        glyphs=glyphs,
        single_lines=sum(len(group["nodes"]) for group in groups) <= MAX_LEAVES,
    )
    for name, branch in drawing.ordered((), top.children):
        yield drawing.outline((name,), branch)
    yield from (Hanging(Text(), line) for line in drawing.leaves((), top))


@dataclass(frozen=True, slots=True)
class _Drawing:
    groups: Mapping[int, PodGroupDocument]
    rooms: Mapping[Path, RoomDocument]
    known: Mapping[Path, GroupDocument]
    kinds: Mapping[Path, str]
    order: Mapping[Path, int]
    glyphs: Glyphs
    single_lines: bool

    def label(self, path: Path) -> Text:
        label = Text().append(plain(path[-1]), style="bold")
        label.append(f"  {plain(self.kinds.get(path, ''))}", style="dim")
        if room := self.rooms.get(path):
            label.append("  ").append_text(self.room(path, room))
        return label

    def room(self, path: Path, room: RoomDocument) -> Text:
        free, taken = room["free_gpus"], room["taken_gpus"]
        words = f"takes {taken} of {free} free GPU{plural(free)}"
        capacity = self.known[path]["capacity"] if path in self.known else None
        if capacity is None:
            return Text(words, style="dim")
        gpus = capacity["gpus"]
        bar = room_bar(gpus, free, taken, self.glyphs)
        return bar.append(f"  takes {taken} of {free} free, {gpus} in all", style="dim")

    def outline(self, path: Path, branch: _UsedGroup) -> Outline:
        """Return a used group with what is used below it, and the number of untouched groups."""
        below = self.ordered(path, branch.children)
        children = [self.outline((*path, name), child) for name, child in below]
        lines = list(self.leaves(path, branch))
        untouched = _below(self.known.get(path)) - len(branch.children)
        if untouched > 0:
            words = f"{untouched} other group{plural(untouched)}, untouched"
            lines.append(Text(words, style="dim"))
        children += [Outline(Hanging(Text(), line)) for line in lines]
        return Outline(Hanging(Text(), self.label(path)), (), children)

    def ordered(self, path: Path, named: Mapping[str, _T]) -> list[tuple[str, _T]]:
        """Return what lies directly below a path in the order of the tree, unknown names last."""
        last = len(self.order)
        return sorted(named.items(), key=lambda each: self.order.get((*path, each[0]), last))

    def leaves(self, path: Path, branch: _UsedGroup) -> Iterator[Text]:
        """Yield a line per node, or for many nodes a line per group of pods."""
        if self.single_lines:
            for name, pods in self.ordered(path, branch.nodes):
                yield self._leaf(name, pods)
            return
        members: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for name, pods in branch.nodes.items():
            for index, count in pods.items():
                members[index].append((name, count))
        for index, nodes in members.items():
            yield self._many(index, nodes)

    def _leaf(self, name: str, pods: Mapping[int, int]) -> Text:
        line = Text()
        for index, count in pods.items():
            line.append_text(badge(self.groups[index], self.glyphs)).append(" ")
            if len(pods) > 1:
                line.append(f"{count} pod{plural(count)} ", style="dim")
        line.append(plain(name))
        total = sum(pods.values())
        line.append(f"  {total} pods" if total > 1 else "", style="dim")
        tail = any(self.groups[index]["tail"] for index in pods)
        return line.append("  tail" if tail else "", style="yellow")

    def _many(self, index: int, nodes: Sequence[tuple[str, int]]) -> Text:
        pods = sum(count for _, count in nodes)
        line = badge(self.groups[index], self.glyphs).append(" ")
        ends = dict.fromkeys(plain(name) for name, _ in (nodes[0], nodes[-1]))
        line.append(f" {self.glyphs.ellipsis} ".join(ends))
        words = f"  {len(nodes)} node{plural(len(nodes))}, {pods} pod{plural(pods)}"
        return line.append(words, style="dim")


def _used(groups: Sequence[PodGroupDocument], homes: Mapping[str, Path]) -> _UsedGroup:
    top = _UsedGroup()
    for group in groups:
        for node in group["nodes"]:
            branch = top
            for name in homes.get(node["name"]) or _stated_path(group, node["name"]):
                branch = branch.children.setdefault(name, _UsedGroup())
            pods = branch.nodes[node["name"]]
            pods[group["index"]] = pods.get(group["index"], 0) + node["pods"]
    return top


def _stated_path(group: PodGroupDocument, node: str) -> Path:
    """Return the path that the plan gives a node: that of its only domain, without the node."""
    if len(group["domains"]) != 1:
        return ()
    return tuple(name for name in group["domains"][0]["path"] if name != node)


def _below(group: GroupDocument | None) -> int:
    """Return the number of groups directly below a group."""
    return 0 if group is None else sum(is_group(child) for child in group["child"])
