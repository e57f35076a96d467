"""The groups of one kind as blocks for `topology/block`, and the sizes of blocks.

Slurm knows no parents of blocks. It takes runs of consecutive lines as aggregated blocks: of sizes
base * 2, base * 4 and so on, where the first of `BlockSizes` is the base and every further one is
the base times a power of two (26.05 refuses others).

Result: a row of blocks in which each group above the blocks is exactly one run of an aggregated
size, so that Slurm takes no two blocks as near that are not.

How: each level above has one width, the smallest power of two that holds its widest group; what a
group does not fill is filled with empty blocks. The sizes are base times the widths, and one that
holds everything. The base is the number of nodes that most blocks have when complete.

Why that is right: widths are powers of two and each divides the next, so that a group begins where
a run of its width begins. A block that comes or goes changes its own line and one empty block of
its group, never the place of another group, until a level outgrows its width.
O(blocks); no more than `MAX_BLOCKS` lines.

Example: pairs, of which box-1 has three and box-2 two: width 4, base 2.
    BlockName=fly-1 … fly-3, fly-1.empty-1, fly-4, fly-5, fly-4.empty-1, fly-4.empty-2
    BlockSizes=2,8,16
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from itertools import pairwise

from topo.model.errors import Refusal
from topo.model.forest import ROOT, Forest, Group, Node
from topo.model.ids import GroupPath, Kind, NodeName, natural_key
from topo.publish.slurm.kept_names import PADDING, choose_names
from topo.publish.slurm.topology import Part, Topology, Unit

MAX_BLOCKS = 1 << 16
"""Lines of one topology: Slurm keeps a set of all nodes for each."""
_PADDED_CHARS = 40


def block_kinds(forest: Forest) -> tuple[Kind, ...]:
    """Return the kinds of the innermost groups, in the order of the forest. O(nodes).

    A switchbox without a whole dragonfly is none where another one has some.
    """
    found: dict[Kind, bool] = {}
    for _, group in forest.groups():
        is_outer = any(isinstance(child, Group) for child in group.children)
        found[group.kind] = found.get(group.kind, False) or is_outer
    return tuple(kind for kind, is_outer in found.items() if not is_outer)


class _Tree:
    """The groups above the blocks of a kind: what has blocks, and how wide each level is."""

    def __init__(self, forest: Forest, kind: Kind, is_written: Callable[[str], bool]) -> None:
        self.kind = kind
        self.blocks: list[Part] = []
        self.size: Counter[int] = Counter()
        self.below: dict[GroupPath, list[GroupPath]] = {}
        self.tiers: dict[GroupPath, int] = {}
        tops = (self._add(root, ROOT, is_written) for root in forest.roots)
        self.below[ROOT] = [path for path in tops if path is not None]
        self.widths = dict(self._level_widths())

    def _add(
        self, group: Group, above: GroupPath, is_written: Callable[[str], bool]
    ) -> GroupPath | None:
        path = GroupPath((*above, group.name))
        if group.kind == self.kind:
            nodes = _nodes(group, is_written)
            if not nodes:
                return None
            self.blocks.append(Part(path, nodes))
            self.size[max(len(nodes), group.expected or 0)] += 1
            return path
        groups = (child for child in group.children if isinstance(child, Group))
        below = [each for child in groups if (each := self._add(child, path, is_written))]
        if not below:
            return None
        self.below[path], self.tiers[path] = below, group.tier
        return path

    def _level_widths(self) -> Iterator[tuple[int, int]]:
        """Yield each tier above the blocks with the width of its groups, in blocks."""
        width = 1
        for tier in sorted(set(self.tiers.values())):
            most = max(len(self.below[path]) for path, at in self.tiers.items() if at == tier)
            width *= 1 << (most - 1).bit_length()
            yield tier, width

    def inner_width(self, path: GroupPath) -> int:
        """Return how many blocks each child of a group, or of the whole, takes."""
        tier = self.tiers.get(path)
        return max((w for at, w in self.widths.items() if tier is None or at < tier), default=1)

    def count(self) -> int:
        """Return the blocks of the row with those that are empty."""
        return len(self.below[ROOT]) * self.inner_width(ROOT)


def block_topology(
    forest: Forest,
    kind: Kind,
    name: str,
    earlier: Topology | None,
    *,
    base: int | None,
    is_written: Callable[[str], bool],
) -> Topology | Refusal:
    """Return the blocks of the groups of a kind, with sizes over the `base` or their own.

    Names of the earlier topology stay; one that no group has is an empty block at the end.
    """
    tree = _Tree(forest, kind, is_written)
    if not tree.blocks and (earlier is None or not earlier.units):
        kinds = sorted({group.kind for _, group in forest.groups()})
        fix = f"name one of {', '.join(kinds)}, or use slurm-tree" if kinds else "use slurm-tree"
        return Refusal(f"no group of kind {kind} has a node", "--kind", fix)
    if tree.count() > MAX_BLOCKS:
        what = f"{len(tree.blocks)} groups of kind {kind} need {tree.count():,} blocks: "
        what += "groups above them are too uneven"
        fix = f"name a kind of groups with at most {MAX_BLOCKS:,}, or use the tree"
        return Refusal(what, "--kind", fix)
    names = choose_names(tree.blocks, earlier)
    nodes = {part.path: part.nodes for part in tree.blocks}
    row = list(_row(tree, names.of, nodes))
    common = max(tree.size, key=lambda size: (tree.size[size], size), default=1)
    sizes = _sizes(base or common, tree) if tree.blocks else _sizes_of(earlier, base)
    return Topology(name, (*row, *map(Unit, names.gone)), sizes, is_block=True)


def _nodes(group: Group, is_written: Callable[[str], bool]) -> tuple[NodeName, ...]:
    found = (each.name for _, each in group.walk() if isinstance(each, Node))
    return tuple(name for name in found if is_written(name))


def _row(
    tree: _Tree, names: Mapping[GroupPath, str], nodes: Mapping[GroupPath, tuple[NodeName, ...]]
) -> Iterator[Unit]:
    """Yield the blocks in their order, with the empty ones.

    Groups above the blocks go by the first name that is written below them: one that is called
    otherwise stays where it is.
    """
    first: dict[GroupPath, str] = dict(names)
    for path in sorted(tree.below, key=len, reverse=True):
        first[path] = min((first[each] for each in tree.below[path]), key=natural_key, default="")
    empty: Counter[str] = Counter()

    def places(path: GroupPath, width: int) -> Iterator[Unit]:
        if path in nodes:
            yield Unit(names[path], nodes[path])
            used = 1
        else:
            inner = tree.inner_width(path)
            for child in sorted(tree.below[path], key=lambda each: natural_key(first[each])):
                yield from places(child, inner)
            used = inner * len(tree.below[path])
        for _ in range(width - used):
            empty[first[path]] += 1
            yield Unit(f"{_short(first[path])}{PADDING}{empty[first[path]]}")

    yield from places(ROOT, tree.count())


def _short(name: str) -> str:
    """Return the name with room for what follows; Slurm's names have 64 characters."""
    if len(name) <= _PADDED_CHARS:
        return name
    return f"{name[: _PADDED_CHARS - 9]}-{sha256(name.encode()).hexdigest()[:8]}"


def _sizes(base: int, tree: _Tree) -> tuple[int, ...]:
    whole = 1 << (tree.count() - 1).bit_length()
    widths = [1, *tree.widths.values(), whole]
    return (base, *(base * wide for narrow, wide in pairwise(widths) if wide > narrow))


def _sizes_of(earlier: Topology | None, base: int | None) -> tuple[int, ...]:
    """Return the sizes of a row without nodes, from which Slurm cannot compute them."""
    return (earlier.block_sizes if earlier is not None else ()) or (base or 1,)
