"""The tree of groups as numbers: what stays the same while jobs come and go."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from topo.model.ids import GroupName, GroupPath, NodeName
from topo.placement.capacity.host import Host

Levels = tuple[tuple[tuple[int, ...], ...], ...]
"""By tier and domain: numbers of domains of another tier."""


@dataclass(frozen=True)
class Tree:
    """Every host has one domain at every tier, numbered from 0 in natural order.

    Tier 0 are the hosts themselves, tier `root` is everything. `domain_of[tier][host]`;
    `children[tier][domain]` are domains of the tier below, `members` are hosts. A domain that no
    source named (a node right under a switchbox) never holds more than what stands there alone.
    """

    hosts: tuple[Host, ...]
    domain_of: tuple[tuple[int, ...], ...]
    children: Levels
    members: Levels
    paths: tuple[tuple[GroupPath, ...], ...]

    @property
    def root(self) -> int:
        """The tier of the one domain that holds all; the highest real tier is one below."""
        return len(self.domain_of) - 1

    @cached_property
    def position(self) -> dict[NodeName, int]:
        """The number of each host by its name."""
        return {host.name: number for number, host in enumerate(self.hosts)}

    @cached_property
    def _below(self) -> dict[tuple[int, int, int], tuple[int, ...]]:
        return {}

    def below(self, tier: int, domain: int, lower: int) -> tuple[int, ...]:
        """The domains of a lower tier inside a domain, in natural order; remembered."""
        key = (tier, domain, lower)
        found = self._below.get(key)
        if found is None:
            found = (domain,)
            for level in range(tier, lower, -1):
                found = tuple(c for d in found for c in self.children[level][d])
            self._below[key] = found
        return found


def tree_of(hosts: Sequence[Host], tiers: int) -> Tree:
    """The tree over hosts in natural order; O(hosts x tiers)."""
    levels = [[_path_at(host, tier) for host in hosts] for tier in range(1, tiers + 1)]
    levels.append([GroupPath(())] * len(hosts))
    domain_of: list[tuple[int, ...]] = [tuple(range(len(hosts)))]
    paths = [tuple(_alone(host) for host in hosts)]
    for level in levels:
        numbers: dict[GroupPath, int] = {}
        domain_of.append(tuple(numbers.setdefault(path, len(numbers)) for path in level))
        paths.append(tuple(numbers))
    children = [((),) * len(hosts)] + [
        _inverse(upper, lower) for lower, upper in pairwise(domain_of)
    ]
    members = [_inverse(level, domain_of[0]) for level in domain_of]
    return Tree(tuple(hosts), tuple(domain_of), tuple(children), tuple(members), tuple(paths))


def _alone(host: Host) -> GroupPath:
    return GroupPath((*host.path, GroupName(host.name)))


def _path_at(host: Host, tier: int) -> GroupPath:
    """The group of that tier on the host's path, else the next lower thing on it."""
    for depth, its_tier in enumerate(host.tiers, start=1):
        if its_tier <= tier:
            return GroupPath(host.path[:depth])
    return _alone(host)


def _inverse(upper: Sequence[int], lower: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The numbers of the lower level under each of the upper, each once, in order."""
    below: dict[int, dict[int, None]] = {}
    for domain, child in zip(upper, lower, strict=True):
        below.setdefault(domain, {})[child] = None
    return tuple(tuple(found) for found in below.values())
