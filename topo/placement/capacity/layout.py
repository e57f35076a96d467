"""The tree as ranges over its tier-1 domains, which are in natural order.

Every host has a domain at every tier. If its path has no group of a tier, its domain is the next
lower group on its path, so hosts that no source joined are never in one domain.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.ma
from numpy.typing import NDArray

from topo.model.ids import NODE, GroupName, GroupPath, Kind, NodeName, natural_key
from topo.placement.capacity.host import Host
from topo.placement.job.plan import DomainRef

Counts = NDArray[np.int64]
"""One whole number per domain of a tier, in natural order."""
DomainIndices = NDArray[np.intp]
"""Numbers of domains."""
DomainKey = tuple[GroupPath, NodeName | None]
"""A tier-1 group's path, or the path above a lone node and the node."""
MOST_LISTED = 1 << 21
"""Rows times the longest one that are kept of the children of all domains."""


class Tier1Domain:
    """A tier-1 domain. `at` is its index in all arrays, `members` the ids of its hosts."""

    __slots__ = ("_places", "_ranks", "_sorted", "at", "key", "kinds", "members", "order", "tiers")

    def __init__(self, host: Host, key: DomainKey) -> None:
        self.key = key
        depth = len(key[0])
        self.kinds, self.tiers = host.kinds[:depth], host.tiers[:depth]
        self._places = host.places[:depth]
        self.order = self._order()
        self.at = -1
        self.members: list[int] = []
        self._sorted = True
        self._ranks: dict[int, int] | None = None

    def follow(self, host: Host) -> bool:
        """Update the places and tiers of the domain's groups from a host.

        Returns whether the domain has moved, or is in groups of other tiers.
        """
        depth, tiers = len(self.key[0]), self.tiers
        if self.tiers is not host.tiers or self.kinds is not host.kinds:
            self.tiers, self.kinds = host.tiers[:depth], host.kinds[:depth]
        if self._places == host.places[:depth]:
            return self.tiers != tiers
        self._places = host.places[:depth]
        self.order = self._order()
        return True

    def _order(self) -> tuple[object, ...]:
        """Return the sort key: the places of the groups; lone nodes follow groups of the name."""
        path, lone = self.key
        names = path if lone is None else (*path, lone)
        places = (*(self._places or path), *names[len(path) :])
        pairs = zip(map(natural_key, places), map(natural_key, names), strict=True)
        return tuple(pairs), lone is not None

    def clone(self) -> "Tier1Domain":
        """Return an independent copy."""
        twin = object.__new__(Tier1Domain)
        twin.key, twin.kinds, twin.tiers, twin.order = self.key, self.kinds, self.tiers, self.order
        twin._places = self._places
        # `_sorted` first: a reader in another thread may sort the members in between.
        twin._sorted = self._sorted
        twin.at, twin.members, twin._ranks = self.at, self.members[:], None
        return twin

    def add(self, host_id: int) -> None:
        """Add a host."""
        self.members.append(host_id)
        self._sorted = len(self.members) == 1
        self._ranks = None

    def drop(self, host_id: int) -> None:
        """Remove a host; O(its hosts)."""
        self.members.remove(host_id)
        self._ranks = None

    def ids(self, names: list[NodeName]) -> list[int]:
        """Return the ids of its hosts in natural order."""
        if not self._sorted:
            # Not in place: a reader of a copied capacity in another thread may use this list.
            self.members = sorted(self.members, key=lambda host_id: natural_key(names[host_id]))
            self._sorted = True
        return self.members

    def ranks(self, names: list[NodeName]) -> dict[int, int]:
        """Return the place of each host within the domain."""
        if self._ranks is None:
            self._ranks = {host_id: rank for rank, host_id in enumerate(self.ids(names))}
        return self._ranks

    def depth(self, tier: int) -> int:
        """Return how many names of the path name the domain of a tier; 0 for a lone node."""
        for at, own in enumerate(self.tiers):
            if own <= tier:
                return at + 1
        return 0

    def shares_domain_with(self, other: "Tier1Domain", tier: int) -> bool:
        """Return whether two tier-1 domains are in one domain of a tier above 1."""
        depth = self.depth(tier)
        paths = self.key[0][:depth], other.key[0][: other.depth(tier)]
        return depth > 0 and paths[0] == paths[1]

    def ref(self, tier: int) -> DomainRef:
        """Return the domain of a tier that contains this one."""
        depth = self.depth(tier)
        path, name = self.key
        if depth:
            return DomainRef(self.kinds[depth - 1], path[depth - 1], GroupPath(path[:depth]))
        own = GroupName(str(name))
        return DomainRef(NODE, own, GroupPath((*path, own)))


class Children(NamedTuple):
    """The children of all domains of a tier: the first child of each, and a row with all.

    Short rows are padded with the number of all children. There are no rows if there would be too
    many.
    """

    starts: DomainIndices
    rows: DomainIndices | None


def children(starts: DomainIndices, number: int) -> Children:
    """Return the children of domains, given their first children and the number of all children."""
    ends = np.append(starts[1:], number)
    width = int((ends - starts).max(initial=0))
    if width * len(starts) > MOST_LISTED:
        return Children(starts, None)
    rows = starts[:, None] + np.arange(width)
    rows[rows >= ends[:, None]] = number
    return Children(starts, rows)


@dataclass(frozen=True, slots=True)
class Layout:
    """The tree over the tier-1 domains as ranges. In each tuple index t is tier t; 0 is unused.

    `domains` are the tier-1 domains. `firsts[t]` are the first tier-1 domain of each domain of tier
    t, followed by their number; `starts[t]` is the same without the last entry, for `reduceat`;
    `ends[t]` the same without the first entry; `of[t]` the domain of tier t that contains each
    tier-1 domain. `offsets` is the number of hosts before each tier-1 domain.
    """

    tiers: int
    domains: tuple[Tier1Domain, ...]
    firsts: tuple[list[int], ...]
    starts: tuple[DomainIndices, ...]
    ends: tuple[DomainIndices, ...]
    of: tuple[list[int], ...]
    offsets: list[int]
    refs: dict[tuple[int, int], DomainRef] = field(default_factory=dict)
    nested: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    arrays: dict[tuple[int, int], DomainIndices] = field(default_factory=dict)
    children: dict[int, Children] = field(default_factory=dict)
    kinds: dict[Kind, dict[int, DomainIndices]] = field(default_factory=dict)
    ranges: dict[GroupPath, tuple[int, int] | None] = field(default_factory=dict)

    def ref(self, tier: int, domain: int) -> DomainRef:
        """Return the name and kind of a domain."""
        found = self.refs.get((tier, domain))
        if found is None:
            found = self.domains[self.firsts[tier][domain]].ref(tier)
            self.refs[tier, domain] = found
        return found

    def rolled(
        self, values: Counts, tier: int, how: np.ufunc = np.add, *, inner: int = 1
    ) -> Counts:
        """Return, for each domain of a tier, the sum or maximum of a number per `inner` domain."""
        if tier == inner or not values.size:
            return values
        found: Counts = how.reduceat(values, self.starts_in(tier, inner))
        return found

    def inside(self, tier: int, domains: DomainIndices) -> DomainIndices:
        """Return the indices of all tier-1 domains inside the given domains of a tier.

        The result keeps the order of `domains`.
        """
        if len(domains) == 1:
            at = domains.item()
            return np.arange(self.firsts[tier][at], self.firsts[tier][at + 1])
        first = self.starts[tier][domains]
        sizes = self.ends[tier][domains] - first
        ends = sizes.cumsum()
        found: DomainIndices = np.repeat(first - ends + sizes, sizes) + np.arange(ends[-1])
        return found

    def below(self, tier: int, lower: int) -> list[int]:
        """Return the first domain of tier `lower` in each domain of `tier`, then their number."""
        if lower == 1:
            return self.firsts[tier]
        found = self.nested.get((tier, lower))
        if found is None:
            of = self.of[lower]
            found = [of[first] for first in self.firsts[tier][:-1]]
            found.append(len(self.firsts[lower]) - 1)
            self.nested[tier, lower] = found
        return found

    def children_of(self, tier: int) -> Children:
        """Return the children, one tier lower, of each domain of a tier."""
        found = self.children.get(tier)
        if found is None:
            number = len(self.firsts[tier - 1]) - 1
            found = self.children[tier] = children(self.starts_in(tier, tier - 1), number)
        return found

    def of_kind(self, kind: Kind) -> dict[int, DomainIndices]:
        """Return the tier-1 domains inside groups of a kind, by the tier of these groups."""
        found = self.kinds.get(kind)
        if found is None:
            domains: dict[int, list[int]] = {}
            for domain in self.domains:
                for own, tier in zip(domain.kinds, domain.tiers, strict=True):
                    if own == kind:
                        domains.setdefault(tier, []).append(domain.at)
                        break
            found = {tier: np.array(domains[tier], np.intp) for tier in sorted(domains)}
            self.kinds[kind] = found
        return found

    def groups_of(self, kind: Kind) -> Iterator[tuple[int, int]]:
        """Return the groups of a kind as (tier, domain); O(domains)."""
        for tier in range(1, self.tiers + 1):
            for domain, first in enumerate(self.firsts[tier][:-1]):
                if self.ref(tier, domain).kind == kind and tier in self.domains[first].tiers:
                    yield tier, domain

    def range_of(self, path: GroupPath) -> tuple[int, int] | None:
        """Return the first and last tier-1 domain (exclusive) of a group; None if it is unknown."""
        if path not in self.ranges:
            inside = [domain.at for domain in self.domains if domain.key[0][: len(path)] == path]
            self.ranges[path] = (inside[0], inside[-1] + 1) if inside else None
        return self.ranges[path]

    def starts_in(self, tier: int, other: int) -> DomainIndices:
        """Return, for each domain of `tier`, the domain of tier `other` in which it starts."""
        if other == 1:
            return self.starts[tier]
        found = self.arrays.get((tier, other))
        if found is None:
            found = np.array(self.of[other], np.intp)[self.starts[tier]]
            self.arrays[tier, other] = found
        return found


def layout_of(domains: list[Tier1Domain], begins: list[NDArray[np.bool_]]) -> Layout:
    """Build a layout; `begins` marks the tier-1 domains that start a domain of a higher tier."""
    own = np.arange(len(domains), dtype=np.intp)
    starts = [np.zeros(0, np.intp), own, *map(np.flatnonzero, begins)]
    ends = [np.append(start[1:], len(domains)) for start in starts]
    of = [[], own.tolist(), *((np.cumsum(begin) - 1).tolist() for begin in begins)]
    firsts = [[], *([*start.tolist(), len(domains)] for start in starts[1:])]
    offsets = [0, *accumulate(map(len, map(attrgetter("members"), domains)))]
    return Layout(
        tiers=len(begins) + 1,
        domains=tuple(domains),
        firsts=tuple(firsts),
        starts=tuple(starts),
        ends=tuple(ends),
        of=tuple(of),
        offsets=offsets,
    )
