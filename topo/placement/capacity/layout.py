"""Where hosts stand: tier-1 domains ("cells") in the natural order of the tree.

Every host has a domain at every tier. Where its path has no group of a tier, the domain is the next
lower thing on its path alone: never are two things together that no source joined.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topo.model.ids import NODE, GroupName, GroupPath, Kind, NodeName, natural_key
from topo.placement.capacity.host import Host
from topo.placement.job.plan import DomainRef

Counts = NDArray[np.int64]
"""One whole number per domain of a tier, in natural order."""
Places = NDArray[np.intp]
"""Numbers of domains."""
CellKey = tuple[GroupPath, NodeName | None]
"""A tier-1 group's path, or the path above a lone node and the node."""


class Cell:
    """A tier-1 domain. `at` is its place in all arrays, `members` the ids of its hosts."""

    __slots__ = ("_ranks", "_sorted", "at", "key", "kinds", "members", "order", "tiers")

    def __init__(self, host: Host, key: CellKey) -> None:
        self.key = key
        depth = len(key[0])
        self.kinds, self.tiers = host.kinds[:depth], host.tiers[:depth]
        names = key[0] if key[1] is None else (*key[0], key[1])
        # A lone node comes after a group of its name, whichever was heard of first.
        self.order = (tuple([natural_key(name) for name in names]), key[1] is not None)
        self.at = -1
        self.members: list[int] = []
        self._sorted = True
        self._ranks: dict[int, int] | None = None

    def follow(self, host: Host) -> None:
        """Take over kinds and tiers from the host that was heard of last."""
        if self.tiers is not host.tiers or self.kinds is not host.kinds:
            depth = len(self.key[0])
            self.tiers, self.kinds = host.tiers[:depth], host.kinds[:depth]

    def clone(self) -> "Cell":
        """A cell that shares nothing that changes."""
        twin = object.__new__(Cell)
        twin.key, twin.kinds, twin.tiers, twin.order = self.key, self.kinds, self.tiers, self.order
        # In this order: who reads in another thread may put the members in order in between.
        twin._sorted = self._sorted
        twin.at, twin.members, twin._ranks = self.at, self.members[:], None
        return twin

    def add(self, host_id: int) -> None:
        """One more host."""
        self.members.append(host_id)
        self._sorted = len(self.members) == 1
        self._ranks = None

    def drop(self, host_id: int) -> None:
        """One host less; O(hosts of the cell)."""
        self.members.remove(host_id)
        self._ranks = None

    def ids(self, names: list[NodeName]) -> list[int]:
        """The hosts in natural order."""
        if not self._sorted:
            # not in place: who reads a copy of the capacity in another thread shares this list
            self.members = sorted(self.members, key=lambda host_id: natural_key(names[host_id]))
            self._sorted = True
        return self.members

    def ranks(self, names: list[NodeName]) -> dict[int, int]:
        """The place of each host within the cell."""
        if self._ranks is None:
            self._ranks = {host_id: rank for rank, host_id in enumerate(self.ids(names))}
        return self._ranks

    def depth(self, tier: int) -> int:
        """How much of the path names the domain of a tier; 0: it is the lone node itself."""
        for at, own in enumerate(self.tiers):
            if own <= tier:
                return at + 1
        return 0

    def ref(self, tier: int) -> DomainRef:
        """The domain of a tier that this cell is in."""
        depth = self.depth(tier)
        path, name = self.key
        if depth:
            return DomainRef(self.kinds[depth - 1], path[depth - 1], GroupPath(path[:depth]))
        own = GroupName(str(name))
        return DomainRef(NODE, own, GroupPath((*path, own)))


@dataclass(frozen=True, slots=True)
class Layout:
    """The tree over the cells as ranges. Index 0 of each tuple is unused, index t is tier t.

    `firsts[t]` are the first cells of the domains of tier t and, last, the number of cells;
    `starts[t]` the same without the last, for `reduceat`; `of[t]` the domain of each cell.
    `offsets` is the number of hosts before each cell.
    """

    tiers: int
    cells: tuple[Cell, ...]
    firsts: tuple[list[int], ...]
    starts: tuple[Places, ...]
    of: tuple[list[int], ...]
    offsets: list[int]
    refs: dict[tuple[int, int], DomainRef]
    nested: dict[tuple[int, int], list[int]]
    arrays: dict[tuple[int, int], Places]
    kinds: dict[Kind, dict[int, Places]]
    ranges: dict[GroupPath, tuple[int, int] | None]

    def ref(self, tier: int, domain: int) -> DomainRef:
        """What people call a domain."""
        found = self.refs.get((tier, domain))
        if found is None:
            found = self.cells[self.firsts[tier][domain]].ref(tier)
            self.refs[tier, domain] = found
        return found

    def rolled(self, values: Counts, tier: int) -> Counts:
        """Sums of a number per cell by the domains of a tier."""
        if tier == 1 or not values.size:
            return values
        sums: Counts = np.add.reduceat(values, self.starts[tier])
        return sums

    def below(self, tier: int, lower: int) -> list[int]:
        """First domain of the lower tier in each domain of `tier`, and last their number."""
        if lower == 1:
            return self.firsts[tier]
        found = self.nested.get((tier, lower))
        if found is None:
            of = self.of[lower]
            found = [of[first] for first in self.firsts[tier][:-1]]
            found.append(len(self.firsts[lower]) - 1)
            self.nested[tier, lower] = found
        return found

    def of_kind(self, kind: Kind) -> dict[int, Places]:
        """The cells inside groups of a kind by the tier that those groups have."""
        found = self.kinds.get(kind)
        if found is None:
            cells: dict[int, list[int]] = {}
            for cell in self.cells:
                for own, tier in zip(cell.kinds, cell.tiers, strict=True):
                    if own == kind:
                        cells.setdefault(tier, []).append(cell.at)
                        break
            found = {tier: np.array(cells[tier], np.intp) for tier in sorted(cells)}
            self.kinds[kind] = found
        return found

    def groups_of(self, kind: Kind) -> Iterator[tuple[int, int]]:
        """The groups of a kind as (tier, domain); O(domains)."""
        for tier in range(1, self.tiers + 1):
            for domain, first in enumerate(self.firsts[tier][:-1]):
                if self.ref(tier, domain).kind == kind and tier in self.cells[first].tiers:
                    yield tier, domain

    def range_of(self, path: GroupPath) -> tuple[int, int] | None:
        """First and last cell (exclusive) of a group; None where there is no such group."""
        if path not in self.ranges:
            inside = [cell.at for cell in self.cells if cell.key[0][: len(path)] == path]
            self.ranges[path] = (inside[0], inside[-1] + 1) if inside else None
        return self.ranges[path]

    def starts_within(self, tier: int, first: int, last: int) -> list[int]:
        """Where the domains of a tier start among some cells."""
        firsts = self.firsts[tier]
        return firsts[self.of[tier][first] : self.of[tier][last - 1] + 1]

    def inner_starts(self, tier: int, lower: int) -> Places:
        """First domain of the lower tier in each domain of `tier`."""
        if lower == 1:
            return self.starts[tier]
        found = self.arrays.get((tier, lower))
        if found is None:
            found = np.array(self.below(tier, lower)[:-1], np.intp)
            self.arrays[tier, lower] = found
        return found

    def domain_of(self, tier: int) -> Places:
        """The domain of a tier that each cell is in."""
        found = self.arrays.get((tier, 0))
        if found is None:
            found = self.arrays[tier, 0] = np.array(self.of[tier], np.intp)
        return found


def cell_key(host: Host) -> CellKey:
    """The tier-1 domain of a host."""
    for at, tier in enumerate(host.tiers):
        if tier <= 1:
            path = host.path
            return (path if at + 1 == len(path) else GroupPath(path[: at + 1])), None
    return host.path, host.name


class Structure:
    """Hosts by id and cells by key. Mutable; ids and places stay valid until the next layout."""

    def __init__(self) -> None:
        self.ids: dict[NodeName, int] = {}
        self.names: list[NodeName] = []
        self.cell_of: list[Cell] = []
        self.order: list[Cell] = []
        self.version = 0
        self._cells: dict[CellKey, Cell] = {}
        self._spare: list[int] = []
        self._tops: dict[int, int] = {}
        self._sorted = True
        self._layout: Layout | None = None

    @property
    def tiers(self) -> int:
        """T: the highest tier that any host's path has, at least 1."""
        return max(self._tops, default=1)

    def clone(self) -> "Structure":
        """The same places, sharing nothing that changes; O(hosts)."""
        twin = Structure()
        twin.ids, twin.names, twin._spare = self.ids.copy(), self.names[:], self._spare[:]
        twin.order = [cell.clone() for cell in self.order]
        twin._cells = {cell.key: cell for cell in twin.order}
        twin.cell_of = self.cell_of[:]
        for cell in twin.order:
            for host_id in cell.members:
                twin.cell_of[host_id] = cell
        twin._tops, twin._sorted, twin.version = self._tops.copy(), self._sorted, self.version
        return twin

    def add(self, host: Host) -> tuple[int, bool]:
        """The id given to a new host, and whether a cell was made for it at the end of `order`."""
        key = cell_key(host)
        cell = self._cells.get(key)
        made = cell is None
        if cell is None:
            cell = self._cells[key] = Cell(host, key)
            cell.at = len(self.order)
            self.order.append(cell)
            self._sorted = False
        else:
            cell.follow(host)
        host_id = self._spare.pop() if self._spare else len(self.names)
        if host_id == len(self.names):
            self.names.append(host.name)
            self.cell_of.append(cell)
        self.names[host_id], self.cell_of[host_id] = host.name, cell
        self.ids[host.name] = host_id
        cell.add(host_id)
        top = host.tiers[0] if host.tiers else 1
        self._tops[top] = self._tops.get(top, 0) + 1
        self._changed()
        return host_id, made

    def drop(self, host: Host) -> None:
        """Forget a host; its cell stays, empty, until the next layout."""
        host_id = self.ids.pop(host.name)
        cell = self.cell_of[host_id]
        cell.drop(host_id)
        if not cell.members:
            self._sorted = False
        self._spare.append(host_id)
        top = host.tiers[0] if host.tiers else 1
        self._tops[top] -= 1
        if not self._tops[top]:
            del self._tops[top]
        self._changed()

    @property
    def settled(self) -> bool:
        """Whether the places of the cells are those of the natural order."""
        return self._sorted

    def settle(self) -> list[int]:
        """Put the cells in natural order, empty ones gone; the places that they had before."""
        self.order = [cell for cell in self.order if cell.members]
        self.order.sort(key=attrgetter("order"))
        before = [cell.at for cell in self.order]
        for at, cell in enumerate(self.order):
            cell.at = at
        self._cells = {cell.key: cell for cell in self.order}
        self._sorted = True
        self._changed()
        return before

    def layout(self) -> Layout:
        """The ranges of all tiers over settled cells; O(cells x tiers) after a change."""
        if self._layout is None:
            self._layout = _layout(self.order, self.tiers)
        return self._layout

    def walk(self) -> Iterator[int]:
        """All host ids in natural order; the cells must be settled."""
        for cell in self.order:
            yield from cell.ids(self.names)

    def _changed(self) -> None:
        self.version += 1
        self._layout = None


def _layout(cells: list[Cell], tiers: int) -> Layout:
    firsts: list[list[int]] = [[], list(range(len(cells) + 1))]
    firsts += [_firsts(cells, tier) for tier in range(2, tiers + 1)]
    starts = tuple(np.array(first[:-1], dtype=np.intp) for first in firsts)
    of: list[list[int]] = [[], firsts[1][:-1]]
    for first in firsts[2:]:
        sizes = np.diff(np.array(first))
        of.append(np.repeat(np.arange(len(sizes)), sizes).tolist())
    offsets = [0]
    total = 0
    for cell in cells:
        total += len(cell.members)
        offsets.append(total)
    return Layout(
        tiers, tuple(cells), tuple(firsts), starts, tuple(of), offsets, {}, {}, {}, {}, {}
    )


def _firsts(cells: list[Cell], tier: int) -> list[int]:
    firsts: list[int] = []
    before: Any = None
    for at, cell in enumerate(cells):
        depth = cell.depth(tier)
        domain = cell.key[0][:depth] if depth else None
        if domain is None or domain != before:
            firsts.append(at)
        before = domain
    firsts.append(len(cells))
    return firsts
