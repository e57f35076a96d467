"""The index of hosts: their ids, their tier-1 domains, and the layout that follows from them."""

from bisect import bisect
from collections import Counter
from collections.abc import Iterable
from itertools import compress
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from topo.model.ids import GroupPath, Kind, NodeName
from topo.placement.capacity.host import Host
from topo.placement.capacity.layout import DomainIndices, DomainKey, Layout, Tier1Domain, layout_of


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
            self._layout = layout_of(self.order, [self._begins[tier] for tier in tiers])
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
