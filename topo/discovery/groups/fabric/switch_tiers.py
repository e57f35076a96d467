"""Which hosts of a switched fabric are near each other: its leaves in groups, in pods, in a whole.

Result: for each host its groups from the outermost in, each a set of switches.

How, the innermost tier: a *leaf* is a switch with a host. Two hosts share as many cables as both
have to the same leaves; they are near if these are more than half of the cables of the one that
has more. Hosts that are near are of one group, and so are those near to them. A leaf is of the
group that has most of its cables, and a host belongs to a group if more than half of its own cables
are there.

How, the tiers above: a switch has as its rank its distance from the nearest leaf, which has rank 1.
With the switches of rank 2 and less some groups are connected: they are a *spine* group; with those
of rank 3 a *core* group, and so on. A tier that connects nothing new is left out, and a group that
no switch above connects has no groups around it.

Why that is right: where each adapter of a host has a leaf of its own (rails), the hosts of a unit
share all leaves, and none alone says who is near; where a host has one leaf, all hosts on it do.
Hosts of two units share no leaf but by wrong cables, and these would have to be more than half of
the cables of one. A host with some cables cut or wrong is near to those whose are right while more
than half of its own are. A server with two cables is near to no host with eight. What names of
switches say is not used.

Cost: O(cables) and, for each leaf, the square of the different sets of leaves that its hosts have:
one where all cables are right.

Example: gpu-1 and gpu-2 each have a cable to leaf-1 and one to leaf-2, gpu-3 and gpu-4 to leaf-3
and leaf-4; spine-1 connects all. gpu-1 and gpu-2 share both cables: a group. So are 3 and 4;
spine-1 connects the two groups. A storage server on leaf-2 and leaf-3 shares one of two with each,
which is not more than half, and is in no group.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from itertools import combinations, pairwise
from typing import NamedTuple, TypeVar

from topo.discovery.groups.fabric.wires import Wires
from topo.model.fabric import Guid
from topo.model.ids import Kind

Host = str
"""Who has an adapter: a node, or somebody that only the fabric names."""
LEAF = Kind("leaf")
_KINDS = (LEAF, Kind("spine"), Kind("core"))
_Cables = frozenset[tuple[Guid, int]]
"""The leaves of a host, each with how many of its cables are there."""
_Hosts = frozenset[_Cables]
"""Hosts that are of one group, by their cables."""
_K = TypeVar("_K", bound=Hashable)


class SwitchGroup(NamedTuple):
    """Switches that make one group of their tier, by which they are told from others."""

    kind: Kind
    switches: frozenset[Guid]


SwitchPath = tuple[SwitchGroup, ...]
"""Outermost first."""


class Placed(NamedTuple):
    """Where hosts are, and the hosts whose cables are divided between groups.

    `strays` are hosts with a cable outside of their group, or without a group for that; for each
    the leaf groups of its cables, the one with the most first.
    """

    paths: Mapping[Host, SwitchPath]
    strays: Mapping[Host, tuple[SwitchGroup, ...]]


def place(wires: Wires, hosts: Mapping[Guid, Host]) -> Placed:
    """Return the groups of all hosts; `hosts` has the host of each adapter."""
    leaves: defaultdict[Host, Counter[Guid]] = defaultdict(Counter)
    for adapter, host in hosts.items():
        leaves[host].update(each.switch for each in wires.uplinks.get(adapter, ()))
    group_of = _leaf_groups(leaves)
    above = _groups_above(wires, set(group_of.values()), group_of)
    paths: dict[Host, SwitchPath] = {}
    strays: dict[Host, tuple[SwitchGroup, ...]] = {}
    for host, cables in leaves.items():
        votes: Counter[SwitchGroup] = Counter()
        for leaf, number in cables.items():
            votes[group_of[leaf]] += number
        ordered = sorted(votes, key=lambda each: (-votes[each], min(each.switches)))
        if len(ordered) > 1:
            strays[host] = tuple(ordered)
        if ordered and 2 * votes[ordered[0]] > votes.total():
            paths[host] = (*above[ordered[0]], ordered[0])
    return Placed(paths, strays)


def _leaf_groups(leaves: Mapping[Host, Counter[Guid]]) -> dict[Guid, SwitchGroup]:
    """Return the group of each leaf: that of the hosts with most of its cables."""
    alike: Counter[_Cables] = Counter(frozenset(each.items()) for each in leaves.values() if each)
    """How many hosts have the same cables: nearly all of a unit have."""
    near = (
        (one, other)
        for (one, other), shared in _shared(alike).items()
        if 2 * shared > max(_number(one), _number(other))
    )
    votes: defaultdict[Guid, Counter[_Hosts]] = defaultdict(Counter)
    sizes: Counter[_Hosts] = Counter()
    for hosts in _components(alike, near):
        for cables in hosts:
            sizes[hosts] += alike[cables] * _number(cables)
            for leaf, number in cables:
                votes[leaf][hosts] += alike[cables] * number
    members: defaultdict[_Hosts, set[Guid]] = defaultdict(set)
    for leaf, found in votes.items():
        most = max(found, key=lambda each: (found[each], sizes[each], sorted(map(sorted, each))))
        members[most].add(leaf)
    groups = (SwitchGroup(LEAF, frozenset(found)) for found in members.values())
    return {leaf: group for group in groups for leaf in group.switches}


def _shared(alike: Iterable[_Cables]) -> Counter[tuple[_Cables, _Cables]]:
    """Return for each two of them that have a leaf in common how many cables they share."""
    on_leaf: defaultdict[Guid, list[tuple[_Cables, int]]] = defaultdict(list)
    for cables in sorted(alike, key=sorted):
        for leaf, number in cables:
            on_leaf[leaf].append((cables, number))
    shared: Counter[tuple[_Cables, _Cables]] = Counter()
    for several in on_leaf.values():
        for (one, of_one), (other, of_other) in combinations(several, 2):
            shared[one, other] += min(of_one, of_other)
    return shared


def _number(cables: _Cables) -> int:
    return sum(number for _, number in cables)


def _groups_above(
    wires: Wires, groups: set[SwitchGroup], group_of: Mapping[Guid, SwitchGroup]
) -> dict[SwitchGroup, SwitchPath]:
    """Return for each leaf group the groups around it, outermost first."""
    ranks = _ranks(wires, group_of)
    found: dict[SwitchGroup, SwitchPath] = dict.fromkeys(groups, ())
    inside = dict.fromkeys(groups, 1)
    """For each group how many are around it in the tier below."""
    for rank in range(2, max(ranks.values(), default=1) + 1):
        near = (
            (one, other)
            for one, others in wires.trunks.items()
            for other in others
            if ranks.get(one, rank + 1) <= rank and ranks.get(other, rank + 1) <= rank
        )
        of_group = (tuple(group.switches) for group in groups)
        bound = (pair for leaves in of_group for pair in pairwise(leaves))
        for switches in _components(ranks, (*near, *bound)):
            members = {group_of[each] for each in switches if each in group_of}
            tops = frozenset(each for each in switches if ranks[each] == rank)
            if not tops or all(inside[each] == len(members) for each in members):
                continue
            around = SwitchGroup(_kind(rank), tops)
            for group in members:
                inside[group] = len(members)
                found[group] = (around, *found[group])
    return found


def _ranks(wires: Wires, leaves: Iterable[Guid]) -> dict[Guid, int]:
    """Return the distance of each switch from the nearest leaf, 1 for a leaf itself."""
    ranks = dict.fromkeys(leaves, 1)
    edge = list(ranks)
    while edge:
        following: list[Guid] = []
        for switch in edge:
            for other in wires.trunks.get(switch, ()):
                if other not in ranks:
                    ranks[other] = ranks[switch] + 1
                    following.append(other)
        edge = following
    return ranks


def _components(keys: Iterable[_K], near: Iterable[tuple[_K, _K]]) -> list[frozenset[_K]]:
    """Return the keys in sets that are connected by pairs."""
    root = {each: each for each in keys}

    def find(each: _K) -> _K:
        while root[each] != each:
            root[each] = root[root[each]]
            each = root[each]
        return each

    for one, other in near:
        root[find(one)] = find(other)
    members: defaultdict[_K, set[_K]] = defaultdict(set)
    for each in root:
        members[find(each)].add(each)
    return [frozenset(found) for found in members.values()]


def _kind(rank: int) -> Kind:
    return _KINDS[rank - 1] if rank <= len(_KINDS) else Kind(f"tier-{rank}")
