"""The order of hosts: tier-1 domains in the natural order of the tree.

Every host has a domain at every tier. If its path has no group of a tier, its domain is the next
lower group on its path, so hosts that no source joined are never in one domain.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, compress
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


def _tier1_key(host: Host) -> DomainKey:
    """Return the key of a host's tier-1 domain."""
    for at, tier in enumerate(host.tiers):
        if tier <= 1:
            path = host.path
            return (path if at + 1 == len(path) else GroupPath(path[: at + 1])), None
    return host.path, host.name


class HostIndex:
    """Hosts by id, tier-1 domains by key. Mutable; both stay valid until the next layout."""

    def __init__(self) -> None:
        self.ids: dict[NodeName, int] = {}
        self.names: list[NodeName] = []
        self.domain_of_host: list[Tier1Domain] = []
        self.order: list[Tier1Domain] = []
        self._domains: dict[DomainKey, Tier1Domain] = {}
        self._spare: list[int] = []
        self._chains: Counter[tuple[tuple[Kind, ...], tuple[int, ...]]] = Counter()
        self._astray: dict[DomainKey, Tier1Domain] = {}
        self._begins: dict[int, NDArray[np.bool_]] = {}
        """By tier: which of `order` are the first of their domain of that tier."""
        self._layout: Layout | None = None
        self._domain_at: DomainIndices | None = None

    @property
    def tiers(self) -> int:
        """T: the highest tier that any host's path has, at least 1."""
        return max(self.kinds().values(), default=1)

    def kinds(self) -> dict[str, int]:
        """Return the kinds of groups that contain hosts, with the highest tier of each kind."""
        found: dict[str, int] = {}
        for kinds, tiers in self._chains:
            for kind, tier in zip(kinds, tiers, strict=True):
                found[kind] = max(tier, found.get(kind, 0))
        return found

    def clone(self) -> "HostIndex":
        """Return an independent copy; O(hosts)."""
        twin = HostIndex()
        twin.ids, twin.names, twin._spare = self.ids.copy(), self.names[:], self._spare[:]
        twin.order = [domain.clone() for domain in self.order]
        twin._domains = {domain.key: domain for domain in twin.order}
        twin.domain_of_host = self.domain_of_host[:]
        for domain in twin.order:
            for host_id in domain.members:
                twin.domain_of_host[host_id] = domain
        twin._chains, twin._begins = self._chains.copy(), self._begins.copy()
        twin._astray = {key: twin._domains[key] for key in self._astray}
        return twin

    def add(self, host: Host) -> tuple[int, bool]:
        """Add a host; return its id, and whether it got a new domain at the end of `order`."""
        key = _tier1_key(host)
        domain = self._domains.get(key)
        made = domain is None
        if domain is None:
            domain = self._domains[key] = Tier1Domain(host, key)
            domain.at = len(self.order)
            self.order.append(domain)
            self._astray[key] = domain
        elif domain.follow(host):
            self._astray[key] = domain
        host_id = self._spare.pop() if self._spare else len(self.names)
        if host_id == len(self.names):
            self.names.append(host.name)
            self.domain_of_host.append(domain)
        self.names[host_id], self.domain_of_host[host_id] = host.name, domain
        self.ids[host.name] = host_id
        domain.add(host_id)
        self._chains[host.kinds, host.tiers] += 1
        self._layout = self._domain_at = None
        return host_id, made

    def drop(self, host: Host) -> None:
        """Remove a host; its domain stays, empty, until the next layout."""
        host_id = self.ids.pop(host.name)
        domain = self.domain_of_host[host_id]
        domain.drop(host_id)
        if not domain.members:
            self._astray[domain.key] = domain
        self._spare.append(host_id)
        chain = host.kinds, host.tiers
        self._chains[chain] -= 1
        if not self._chains[chain]:
            del self._chains[chain]
        self._layout = self._domain_at = None

    def located(self, pods: Iterable[tuple[NodeName, int]], places: list[int]) -> dict[int, int]:
        """Return the pods by tier-1 domain; append the positions of their hosts to `places`."""
        ids, domain_of, offsets = self.ids, self.domain_of_host, self.layout().offsets
        domains: dict[int, int] = {}
        last: object = None
        at = offset = 0
        ranks: dict[int, int] = {}
        for name, some in pods:
            host_id = ids[name]
            domain = domain_of[host_id]
            # The pods of a plan come domain by domain: each is looked up once.
            if domain is not last:
                last, at = domain, domain.at
                offset, ranks = offsets[at], domain.ranks(self.names)
                domains.setdefault(at, 0)
            domains[at] += some
            places.append(offset + ranks[host_id])
        return domains

    @property
    def is_settled(self) -> bool:
        """Whether the domains are in natural order."""
        return not self._astray

    def settle(self) -> DomainIndices:
        """Sort the domains naturally and drop empty ones; return the former indices."""
        astray = list(self._astray.values())
        # Domains that stay are in order already: only those astray are sorted and inserted.
        stays = np.ones(len(self.order), np.bool_)
        stays[[domain.at for domain in astray]] = False
        rest = list(compress(self.order, stays.tolist()))
        for domain in astray:
            if not domain.members:
                del self._domains[domain.key]
        moved = sorted((d for d in astray if d.members), key=attrgetter("order"))
        places = [bisect(rest, domain.order, key=attrgetter("order")) for domain in moved]
        before = np.insert(np.flatnonzero(stays), places, [domain.at for domain in moved])
        self.order = []
        for domain, start, end in zip(moved, [0, *places], places, strict=False):
            self.order += rest[start:end]
            self.order.append(domain)
        self.order += rest[places[-1] if places else 0 :]
        for at, domain in enumerate(self.order):
            domain.at = at
        self._begin_anew(before, stays, places)
        self._astray = {}
        self._layout = self._domain_at = None
        return before

    def _begin_anew(
        self, before: DomainIndices, stays: NDArray[np.bool_], places: list[int]
    ) -> None:
        """Update `_begins`: an entry changes only if the domain before it is a different one."""
        moved = np.array(places, np.intp) + np.arange(len(places))
        beside = np.flatnonzero(np.diff(before) != 1)
        apart = np.unique(np.concatenate([moved, moved + 1, beside + 1]))
        touched = apart[(apart > 0) & (apart < len(before))].tolist()
        for tier, begins in self._begins.items():
            # A domain begins one of its tier if it is not in that of the domain before it. That can
            # have changed only next to a domain that moved, came or went.
            kept = self._begins[tier] = np.insert(begins[stays[: len(begins)]], places, True)
            kept[:1] = True
            for at in touched:
                kept[at] = not self.order[at].shares_domain_with(self.order[at - 1], tier)

    def layout(self) -> Layout:
        """Return the ranges of all tiers over settled domains; O(domains x tiers) if changed."""
        if self._layout is None:
            tiers = range(2, self.tiers + 1)
            self._begins = {tier: self._begins_of(tier) for tier in tiers}
            self._layout = _layout(self.order, [self._begins[tier] for tier in tiers])
        return self._layout

    def _begins_of(self, tier: int) -> NDArray[np.bool_]:
        known = self._begins.get(tier)
        if known is not None:
            return known
        pairs = zip(self.order[1:], self.order, strict=False)
        begins = (True, *(not later.shares_domain_with(earlier, tier) for later, earlier in pairs))
        return np.array(begins[: len(self.order)], np.bool_)

    def domain_at(self) -> DomainIndices:
        """Return the tier-1 domain of each host id; arbitrary for an unused id."""
        if self._domain_at is None:
            domains = self.domain_of_host
            self._domain_at = np.fromiter((domain.at for domain in domains), np.intp, len(domains))
        return self._domain_at


def _layout(domains: list[Tier1Domain], begins: list[NDArray[np.bool_]]) -> Layout:
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
