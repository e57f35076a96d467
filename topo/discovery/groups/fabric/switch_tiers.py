"""Which hosts of a switched fabric are near each other: its leaves in groups, in pods, in a whole.

Result: for each host its groups from the outermost in, each a set of switches.

How, the innermost tier: a *leaf* is a switch with a host. Two hosts share as many cables as both
have to the same leaves; they are near if these are more than half of the cables of the one that
has more. Hosts that are near are of one group, and so are those near to them; hosts that only lack
cables that a larger group has are of that group. A leaf is of the group that has most of its
cables, unless most hosts of another group that has leaves are on it, too, or it is a spine or a
core into which a host was plugged: few hosts, and more cables to leaves, or to switches, than to
hosts. A host belongs to a group if more than half of its own cables to leaves of groups are there.

How, the tiers above: a switch has as its rank its distance from the nearest leaf of a group that
has a node; such a leaf has rank 1. A cable is of the tier of its higher end, and of the tier above
if both ends have one rank. With the cables of tier 2 some groups are connected: they are a *spine*
group; with those of tier 3 too a *core* group, and so on. A tier that connects nothing new is left
out, and a group that no cable connects has no groups around it. A cable is *astray*, and counts
from the tier above on, where a group has more cables to other switches whose groups mostly have
none to this one; or as many: then all of them are. So is one between switches of one rank that are
under different ones, where such cables are fewer than half of those upward.

Why that is right: where each adapter of a host has a leaf of its own (rails), the hosts of a unit
share all leaves, and none alone says who is near; where a host has one leaf, all hosts on it do.
Hosts of two units share no leaf but by wrong cables, and these would have to be more than half of
the cables of one. A host with some cables cut or wrong is near to those whose are right while more
than half of its own are. A server with two cables is near to no host with eight. Spines that are
cabled to each other join what each of them holds, as a core would: the groups of a dragonfly+. One
cable in the spine or a leaf of another pod makes two pods no pod, and cables that are cut take no
group out of its pod while one is left; a leaf with one cable in each of two pods is in neither.
What names of switches say is not used.

Cost: O(hosts), O(cables between switches) and, for each leaf, the square of the different sets of
leaves that its hosts have: one where all cables are right.

Example: gpu-1 and gpu-2 each have a cable to leaf-1 and one to leaf-2, gpu-3 and gpu-4 to leaf-3
and leaf-4; spine-1 connects all. gpu-1 and gpu-2 share both cables: a group. So are 3 and 4;
spine-1 connects the two groups. A storage server on leaf-2 and leaf-3 shares one of two with each,
which is not more than half, and is in no group.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, combinations, pairwise
from typing import NamedTuple, TypeVar

from topo.discovery.groups.fabric.wires import Wires
from topo.model.fabric import Guid
from topo.model.ids import Kind

Host = str
"""Who has an adapter: a node, or somebody that only the fabric names."""
LEAF = Kind("leaf")
_KINDS = (LEAF, Kind("spine"), Kind("core"))
_HIGHER = "tier-"
Trunk = tuple[Guid, Guid]
"""A cable between two switches, the one nearer to hosts first."""
Leaves = frozenset[tuple[Guid, int]]
"""The leaves of a host, each with how many of its cables are there."""
_K = TypeVar("_K", bound=Hashable)


class SwitchGroup(NamedTuple):
    """Switches that make one group of their tier, by which they are told from others."""

    kind: Kind
    switches: frozenset[Guid]


SwitchPath = tuple[SwitchGroup, ...]
"""Outermost first."""


class HostGroups(NamedTuple):
    """Where hosts are, and the hosts whose cables are divided between groups.

    `strays` are hosts with a cable outside of their group, or without a group for that; for each
    the leaf groups of its cables, the one with the most first. `trunks_astray` are cables between
    switches, the lower one first, that join no groups of their tier.
    """

    paths: Mapping[Host, SwitchPath]
    strays: Mapping[Host, tuple[SwitchGroup, ...]]
    trunks_astray: tuple[Trunk, ...]


def leaves_of_hosts(wires: Wires, hosts: Mapping[Guid, Host]) -> dict[Host, Leaves]:
    """Return the leaves of each host that has any; `hosts`: the host of each adapter."""
    found: defaultdict[Host, Counter[Guid]] = defaultdict(Counter)
    for adapter, host in hosts.items():
        for each in wires.uplinks.get(adapter, ()):
            found[host][each.switch] += 1
    return {host: frozenset(leaves.items()) for host, leaves in found.items()}


def place(wires: Wires, leaves: Mapping[Host, Leaves], nodes: AbstractSet[Host]) -> HostGroups:
    """Return the groups of all hosts; `leaves`: those of each host, `nodes`: who is a node."""
    inner = _innermost(wires, leaves, nodes)
    above, astray = _groups_above(wires, inner.of_nodes)
    strays: dict[Host, tuple[SwitchGroup, ...]] = {}
    paths: dict[Host, SwitchPath] = {}
    for found, several in inner.hosts.items():
        if len(ordered := inner.ordered[found]) > 1:
            strays |= dict.fromkeys(several, ordered)
        if (own := inner.own.get(found)) is not None:
            paths |= dict.fromkeys(several, (*above.get(own, ()), own))
    return HostGroups(paths, strays, astray)


def tiers(wires: Wires, leaves: Mapping[Host, Leaves], nodes: AbstractSet[Host]) -> dict[Guid, int]:
    """Return the tier of each switch that is connected with nodes, 1 for their leaves."""
    groups = _innermost(wires, leaves, nodes).of_nodes
    return _ranks(wires, (leaf for group in groups for leaf in group.switches))


class _Innermost(NamedTuple):
    """The leaf groups of hosts: by their cables, those with the most first, and the own one.

    `hosts` are those with the same cables: nearly all of a unit have. `of_nodes` are the own
    groups of nodes: a server of the fabric's own may be on a spine, which is no leaf for that.
    """

    hosts: Mapping[Leaves, list[Host]]
    ordered: Mapping[Leaves, tuple[SwitchGroup, ...]]
    own: Mapping[Leaves, SwitchGroup]
    of_nodes: AbstractSet[SwitchGroup]


def _innermost(wires: Wires, leaves: Mapping[Host, Leaves], nodes: AbstractSet[Host]) -> _Innermost:
    hosts: defaultdict[Leaves, list[Host]] = defaultdict(list)
    for host, found in leaves.items():
        hosts[found].append(host)
    of_nodes = {found for found, several in hosts.items() if not nodes.isdisjoint(several)}
    alike = {found: len(several) for found, several in hosts.items()}
    group_of = _leaf_groups(alike, of_nodes, _trunks(wires, alike))
    ordered: dict[Leaves, tuple[SwitchGroup, ...]] = {}
    own: dict[Leaves, SwitchGroup] = {}
    for found in hosts:
        votes: Counter[SwitchGroup] = Counter()
        for leaf, number in found:
            if leaf in group_of:
                votes[group_of[leaf]] += number
        several = sorted(votes, key=lambda each: (-votes[each], min(each.switches)))
        ordered[found] = tuple(several)
        if several and 2 * votes[several[0]] > votes.total():
            own[found] = several[0]
    return _Innermost(hosts, ordered, own, {own[each] for each in of_nodes & own.keys()})


class _Trunks(NamedTuple):
    """How many switches one with a host has cables to, and how many of them have hosts, too."""

    switches: int
    leaves: int


def _trunks(wires: Wires, alike: Iterable[Leaves]) -> dict[Guid, _Trunks]:
    leaves = {leaf for cables in alike for leaf, _ in cables}
    others = {leaf: wires.trunks.get(leaf, ()) for leaf in leaves}
    return {e: _Trunks(len(far), len(leaves.intersection(far))) for e, far in others.items()}


def _leaf_groups(
    alike: Mapping[Leaves, int], of_nodes: AbstractSet[Leaves], trunks: Mapping[Guid, _Trunks]
) -> dict[Guid, SwitchGroup]:
    """Return the group of each leaf that has one: that of the hosts with most of its cables.

    `alike`: how many hosts have the same leaves.
    """
    near = (
        (one, other)
        for (one, other), shared in _shared(alike).items()
        if 2 * shared > max(_number(one), _number(other))
    )
    together = [_Together.of(hosts, alike, of_nodes) for hosts in _components(alike, near)]
    owned = _owned(_absorbed(together), trunks)
    groups = (SwitchGroup(LEAF, frozenset(found)) for found in owned)
    return {leaf: group for group in groups for leaf in group.switches}


def _owned(together: Sequence["_Together"], trunks: Mapping[Guid, _Trunks]) -> Iterable[set[Guid]]:
    """Return the leaves of each set of hosts that has any, without those that several share."""
    on_leaf: defaultdict[Guid, list[int]] = defaultdict(list)
    for number, each in enumerate(together):
        for leaf in each.cables:
            on_leaf[leaf].append(number)
    owner = {
        leaf: max(several, key=lambda number: together[number].weight(leaf))
        for leaf, several in on_leaf.items()
    }
    owners, members = set(owner.values()), defaultdict[int, set[Guid]](set)
    for leaf, number in owner.items():
        others = (each for each in on_leaf[leaf] if each != number and each in owners)
        if together[number].are_astray_on(leaf, trunks[leaf]):
            continue
        if not any(together[each].are_mostly_on(leaf) for each in others):
            members[number].add(leaf)
    return members.values()


@dataclass(slots=True)
class _Together:
    """Hosts that are near each other, and how many cables they have to each leaf."""

    hosts: int
    cables: Counter[Guid]
    has_node: bool

    @classmethod
    def of(
        cls, hosts: Iterable[Leaves], alike: Mapping[Leaves, int], of_nodes: AbstractSet[Leaves]
    ) -> "_Together":
        """Return the hosts with these cables."""
        made = cls(0, Counter(), has_node=False)
        for cables in hosts:
            made.hosts += alike[cables]
            made.has_node |= cables in of_nodes
            for leaf, number in cables:
                made.cables[leaf] += alike[cables] * number
        return made

    def weight(self, leaf: Guid) -> tuple[int, float, list[Guid]]:
        """Return the key under which the leaf is of these hosts sooner than of others."""
        number = self.cables[leaf]
        return number, number / self.hosts, sorted(self.cables)

    def are_mostly_on(self, leaf: Guid) -> bool:
        """Return whether most of several hosts have a cable to the leaf: not one in the wrong."""
        return self.hosts > 1 and 2 * self.cables[leaf] > self.hosts

    def are_astray_on(self, leaf: Guid, trunks: _Trunks) -> bool:
        """Return whether the leaf is a spine or a core: for so few cables it has too many trunks.

        A spine has them to leaves. What a core has a leaf has, too, so hosts must be mostly
        elsewhere.
        """
        number, most = self.cables[leaf], max(self.cables.values())
        is_spine = trunks.leaves > number and not self.are_mostly_on(leaf)
        is_core = trunks.switches > number and 4 * number <= most
        return len(self.cables) > 1 and (is_spine or is_core)

    def holds(self, other: "_Together") -> bool:
        """Return whether the other ones lack cables that these have, and are no more of them."""
        return (
            self.has_node
            and self.cables.total() > other.cables.total()
            and all(self.cables[leaf] >= number for leaf, number in other.cables.items())
        )


def _absorbed(together: list[_Together]) -> list[_Together]:
    """Return the sets of hosts, each that another one holds as a part of that one."""
    kept: list[_Together] = []
    ordered = sorted(together, key=lambda each: (-each.cables.total(), sorted(each.cables.items())))
    on_leaf: defaultdict[Guid, list[_Together]] = defaultdict(list)
    for each in ordered:
        holder = next((o for o in on_leaf[min(each.cables)] if o.holds(each)), None)
        if holder is not None:
            holder.hosts += each.hosts
            holder.cables += each.cables
            continue
        kept.append(each)
        for leaf in each.cables:
            on_leaf[leaf].append(each)
    return kept


def _shared(alike: Iterable[Leaves]) -> Counter[tuple[Leaves, Leaves]]:
    """Return for each two of them that have a leaf in common how many cables they share."""
    on_leaf: defaultdict[Guid, list[tuple[Leaves, int]]] = defaultdict(list)
    for cables in sorted(alike, key=sorted):
        for leaf, number in cables:
            on_leaf[leaf].append((cables, number))
    shared: Counter[tuple[Leaves, Leaves]] = Counter()
    for several in on_leaf.values():
        for (one, of_one), (other, of_other) in combinations(several, 2):
            shared[one, other] += min(of_one, of_other)
    return shared


def _number(cables: Leaves) -> int:
    return sum(number for _, number in cables)


def _groups_above(
    wires: Wires, groups: AbstractSet[SwitchGroup]
) -> tuple[dict[SwitchGroup, SwitchPath], tuple[Trunk, ...]]:
    """Return for each leaf group the groups around it, outermost first; the cables astray."""
    group_of = {leaf: group for group in groups for leaf in group.switches}
    ranks = _ranks(wires, group_of)
    bound = [pair for group in groups for pair in pairwise(group.switches)]
    level, upward = _by_tier(wires, ranks)
    found: dict[SwitchGroup, SwitchPath] = dict.fromkeys(groups, ())
    inside = dict.fromkeys(groups, 1)
    """For each group how many are around it in the tier below."""
    astray: list[Trunk] = []
    for rank in range(2, max((1, *level, *upward)) + 2):
        cables = upward.get(rank, ())
        across = _across(level.get(rank, ()), cables, _components(ranks, bound))
        bound += (each for each in level.get(rank, ()) if each not in across)
        doubted = _astray(cables, _components(ranks, bound))
        astray += (*doubted, *(each for each in across if each == tuple(sorted(each))))
        near = (each for each in cables if each not in doubted)
        for switches in _components(ranks, chain(bound, near)):
            members = {group_of[each] for each in switches if each in group_of}
            if all(inside[each] == len(members) for each in members):
                continue
            highest = max(ranks[each] for each in switches)
            tops = frozenset(each for each in switches if ranks[each] == highest)
            around = SwitchGroup(_kind(rank), tops)
            for group in members:
                inside[group] = len(members)
                found[group] = (around, *found[group])
        bound += (*cables, *across)
    return found, tuple(sorted(astray))


def _by_tier(
    wires: Wires, ranks: Mapping[Guid, int]
) -> tuple[Mapping[int, list[Trunk]], Mapping[int, list[Trunk]]]:
    """Return the cables between switches of one rank and upward, by tier; the lower end first."""
    level, upward = defaultdict[int, list[Trunk]](list), defaultdict[int, list[Trunk]](list)
    for one, rank in ranks.items():
        for other in wires.trunks.get(one, ()):
            if ranks[other] == rank:
                level[rank + 1].append((one, other))
            elif ranks[other] > rank:
                upward[rank + 1].append((one, other))
    return level, upward


def _across(
    level: Sequence[Trunk], upward: Sequence[Trunk], parts: Iterable[frozenset[Guid]]
) -> set[Trunk]:
    """Return the cables between switches of one rank that join parts under different ones.

    Parts are under different ones if they share at most half of their cables to them. None where
    these are half as many as the cables upward, or more: the fabric is a mesh there. `level` has
    each cable in both directions.
    """
    part_of, above = _above(upward, parts)
    crossing: list[Trunk] = []
    for one, other in level:
        here, there = above[part_of[one]], above[part_of[other]]
        if here and there and 2 * (here & there).total() <= min(here.total(), there.total()):
            crossing.append((one, other))
    return set(crossing) if len(crossing) < len(upward) else set()


def _above(
    upward: Sequence[Trunk], parts: Iterable[frozenset[Guid]]
) -> tuple[dict[Guid, frozenset[Guid]], dict[frozenset[Guid], Counter[Guid]]]:
    """Return the part of each switch, and for each part its cables by the switch above."""
    part_of = {each: part for part in parts for each in part}
    above: defaultdict[frozenset[Guid], Counter[Guid]] = defaultdict(Counter)
    for lower, higher in upward:
        above[part_of[lower]][higher] += 1
    return part_of, above


def _astray(upward: Sequence[Trunk], parts: Iterable[frozenset[Guid]]) -> set[Trunk]:
    """Return the cables by which a part is alone where most parts have nothing else with it.

    Each switch above a part says with which others it goes: those that more than half of its other
    parts have, too. So a spine that lost its cables to most leaves of its pod accuses nobody: the
    leaves that it still has all hang on the other spines, too.
    """
    part_of, above = _above(upward, parts)
    keys = {part: frozenset(cables.items()) for part, cables in above.items()}
    numbers = Counter(keys.values())
    beside: defaultdict[Guid, Counter[Guid]] = defaultdict(Counter)
    """For each switch of how many of its parts another one is above."""
    for cables, number in numbers.items():
        for each, _ in cables:
            for other, _ in cables:
                beside[each][other] += number
    doubted = {(cables, each) for cables in numbers for each in _foreign(dict(cables), beside)}
    return {
        (lower, higher) for lower, higher in upward if (keys[part_of[lower]], higher) in doubted
    }


def _foreign(cables: Mapping[Guid, int], beside: Mapping[Guid, Counter[Guid]]) -> Iterable[Guid]:
    """Return those of the switches above a part to which its cable is astray.

    `cables`: how many it has to each. Those that go together vote as one, with a vote for each
    cable; it is of those with most votes, and where two have as many of neither: nobody can say
    which. A switch votes if two other parts or more say that it goes
    with another one; without one that votes none is astray, nor is one half of whose other parts
    have a switch of those with most votes. Switches that have no other part vote as one where there
    are as many of them, and the part has at most half of those that have most votes.
    """
    usual: dict[Guid, frozenset[Guid]] = {}
    for each in cables:
        others = beside[each][each] - 1
        if others:
            counts = ((one, n - (one in cables)) for one, n in beside[each].items())
            usual[each] = frozenset(one for one, n in counts if 2 * n > others)
    votes = Counter[frozenset[Guid]]()
    for together in _components(usual, _overlapping(usual)):
        voting = (e for e in together if len(usual[e]) > 1 and beside[e][e] > 2)
        votes[together] = sum(cables[each] for each in voting)
    best = max(votes.values(), default=0)
    homes = [each for each in votes if best and votes[each] == best]
    lone = frozenset(cables.keys() - usual.keys())
    if homes and not any(_has_most(each, usual) for each in homes):
        homes = [lone] if sum(cables[each] for each in lone) >= best else homes

    def is_apart(each: Guid, home: AbstractSet[Guid]) -> bool:
        others = beside[each][each] - 1
        return each not in home and all(2 * (beside[each][one] - 1) < others for one in home)

    return [each for each in usual if any(is_apart(each, home) for home in homes)]


def _has_most(home: AbstractSet[Guid], usual: Mapping[Guid, frozenset[Guid]]) -> bool:
    """Return whether these are more than half of the switches that go together with them."""
    return 2 * len(home) > len(frozenset[Guid]().union(*(usual[each] for each in home)))


def _overlapping(usual: Mapping[Guid, frozenset[Guid]]) -> Iterator[tuple[Guid, Guid]]:
    first: dict[Guid, Guid] = {}
    for each, several in usual.items():
        for other in several:
            yield each, first.setdefault(other, each)


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


def is_fabric_kind(kind: Kind) -> bool:
    """Return whether a group of this kind is one of switches."""
    return kind in _KINDS or kind.startswith(_HIGHER)


def _kind(rank: int) -> Kind:
    return _KINDS[rank - 1] if rank <= len(_KINDS) else Kind(f"{_HIGHER}{rank}")
