"""The rails of a fabric: on which leaves the adapters beside each GPU are, and who differs.

Result: for each group of leaves whose nodes are wired by rails, the leaves of each rail.

How: the *place* of an adapter are its card, by PCI address, and the GPUs near it. The leaves of a
place are those that more than half of the group's nodes have there. A node is *regular* if it has
no other leaf at any place. The group has rails if its places have different leaves, more than half
of its nodes are regular, and they are too many to agree by accident: a place that has the usual
leaf, where it might have that of any rail, is worth one bit of two rails and three of eight, and
all that follow the first of each place together must be worth `_BITS`. In groups too small for that
(two nodes that differ say nothing about who is right), leaves stand for their rank among the names
of their group, and groups with as many leaves decide together, where a node of the group is as they
say.

Why that is right: names and numbers of adapters follow the driver, GPUs and addresses the board, so
nodes of one kind have the same places, and a node without an adapter has one place less. A place
has a set of leaves: two planes, or the two switches of an MLAG pair, are one rail, whichever port
of a card leads to which. Eight adapters on one leaf are one rail, and so none; two adapters on one
leaf are two places of one rail. Leaves of other groups do not count: a cable to one is astray
for another reason. Names decide only between nodes of one group that differ.

Cost: O(cables of nodes that differ), and O(nodes).

Example: gpu-1 to gpu-4 have GPU 0 on leaf A, 1 on B, 2 on C and 3 on D, only gpu-4 has 2 on D and 3
on C. More than half are alike, twelve cables of which eight agree with the first: 16 bits. Rails 0
to 3 are A to D, and gpu-4 has two adapters on the wrong rail.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2

from topo.discovery.groups.fabric.switch_tiers import SwitchGroup
from topo.model.fabric import Guid
from topo.model.ids import natural_key

Place = tuple[tuple[int, ...], str]
"""The numbers of the GPUs near an adapter, and its card."""
Leaf = str
"""The GUID of a leaf, or its rank in its group."""
Cables = tuple[tuple[Place, Leaf], ...]
"""Of one node, where each of its cables begins and ends."""
Alike = Mapping[Cables, int]
"""How many nodes of a group have the same cables: nearly all have."""
_BITS = 14
"""Cables that lead anywhere agree so in one of 16,000 groups."""


@dataclass(frozen=True, slots=True)
class Rails:
    """The usual leaves of each place; none of a place where nodes do not agree."""

    leaves: Mapping[Place, frozenset[Leaf]]

    @property
    def each(self) -> Sequence[frozenset[Leaf]]:
        """The leaves of each rail, in the order of the GPUs."""
        return tuple(dict.fromkeys(found for _, found in sorted(self.leaves.items()) if found))

    def number(self, leaf: Leaf) -> int | None:
        """Return the rail of a leaf, counted from 0; None where it is of none. O(rails)."""
        return next((at for at, found in enumerate(self.each) if leaf in found), None)

    def are_other(self, place: Place, leaf: Leaf) -> bool:
        """Return whether most nodes have other leaves at this place."""
        usual = self.leaves.get(place, frozenset())
        return bool(usual) and leaf not in usual

    def is_regular(self, cables: Cables) -> bool:
        """Return whether a node has no leaf at a place where most have others, or none."""
        return all(leaf in self.leaves.get(place, ()) for place, leaf in cables)

    def renamed(self, names: Mapping[Leaf, Leaf]) -> "Rails":
        """Return the same rails with other names for their leaves."""
        return Rails({p: frozenset(names[x] for x in found) for p, found in self.leaves.items()})


def find_rails(
    groups: Mapping[SwitchGroup, Alike], names: Mapping[Guid, str]
) -> dict[SwitchGroup, Rails]:
    """Return the rails of each group that has some; `names`: what people call the leaves."""
    found: dict[SwitchGroup, Rails] = {}
    of_size: defaultdict[int, list[SwitchGroup]] = defaultdict(list)
    for group, alike in groups.items():
        of_size[len(group.switches)].append(group)
        if (rails := _common(alike)) is not None:
            found[group] = rails
    for several in of_size.values():
        if unsure := [group for group in several if group not in found]:
            found |= _by_rank({group: groups[group] for group in several}, unsure, names)
    return found


def _by_rank(
    groups: Mapping[SwitchGroup, Alike],
    unsure: Iterable[SwitchGroup],
    names: Mapping[Guid, str],
) -> Iterator[tuple[SwitchGroup, Rails]]:
    """Yield the rails on which groups of as many leaves agree by the ranks of their names."""
    ordered = {
        group: sorted(group.switches, key=lambda leaf: (natural_key(names[leaf]), leaf))
        for group in groups
    }
    ranks: dict[Leaf, Leaf] = {
        leaf: str(at) for leaves in ordered.values() for at, leaf in enumerate(leaves)
    }
    ranked: Counter[Cables] = Counter()
    for alike in groups.values():
        for cables, number in alike.items():
            ranked[tuple((place, ranks[leaf]) for place, leaf in cables)] += number
    if (common := _common(ranked)) is None:
        return
    for group in unsure:
        rails = common.renamed({str(at): leaf for at, leaf in enumerate(ordered[group])})
        if any(map(rails.is_regular, groups[group])):
            yield group, rails


def _common(alike: Alike) -> Rails | None:
    """Return the rails on which these nodes agree beyond accident; None where they do not."""
    votes: defaultdict[Place, Counter[Leaf]] = defaultdict(Counter)
    voters: Counter[Place] = Counter()
    for cables, number in alike.items():
        for place, leaf in set(cables):
            votes[place][leaf] += number
        for place in _places(cables):
            voters[place] += number
    rails = Rails(
        {
            place: frozenset(leaf for leaf, number in of.items() if 2 * number > voters[place])
            for place, of in votes.items()
        }
    )
    regular = {cables: number for cables, number in alike.items() if rails.is_regular(cables)}
    if len(rails.each) < 2 or 2 * sum(regular.values()) <= sum(alike.values()):
        return None
    told = sum(len(_places(cables)) * number for cables, number in regular.items())
    told -= sum(map(bool, rails.leaves.values()))
    return rails if told * log2(len(rails.each)) >= _BITS else None


def _places(cables: Cables) -> set[Place]:
    return {place for place, _ in cables}
