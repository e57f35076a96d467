"""What each shared card has, and what pods take of it: counted by event, as from nothing.

Of each card and of each amount (shares, cores, memory)

    used + free = total + overbooked

where `overbooked` is 0 unless pods take more than there is, as after a card was replaced by a
smaller one. A pod whose cards nobody names takes of its node alone: `unassigned`. What pods take of
cards that their node does not have is `unassigned`, too, so that the sum over a node is what its
pods take.

Example: a card of 10 shares, 100 cores and 65,536 MiB; a pod has 1 share, 50 cores and 8,192 MiB of
it: free 9, 50 and 57,344.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from topo.model.errors import BrokenInvariantError
from topo.model.ids import NodeName


class Amount(NamedTuple):
    """Shares of cards, cores and memory, in the units of one family."""

    shares: int = 0
    cores: int = 0
    memory: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """Return the sum."""
        return Amount(
            self.shares + other.shares, self.cores + other.cores, self.memory + other.memory
        )

    def minus(self, other: "Amount") -> "Amount":
        """Return what is left, nothing below 0."""
        return Amount(
            max(0, self.shares - other.shares),
            max(0, self.cores - other.cores),
            max(0, self.memory - other.memory),
        )

    def holds(self, other: "Amount") -> bool:
        """Return whether so much fits into this."""
        return (
            self.shares >= other.shares
            and self.cores >= other.cores
            and self.memory >= other.memory
        )


NOTHING = Amount()


class Card(NamedTuple):
    """A card as its device plugin publishes it.

    Cards of one `zone` above 0 have a direct link.
    """

    id: str
    total: Amount
    is_healthy: bool = True
    model: str = ""
    mode: str = ""
    zone: int = 0


class CardShare(NamedTuple):
    """What a pod takes of one card; an empty card: nobody says of which.

    `is_whole`: all that the card has, and `amount` where the card is not known.
    """

    card: str
    amount: Amount
    is_whole: bool = False


class CardUsage(NamedTuple):
    """A card and what pods take of it."""

    card: Card
    used: Amount

    @property
    def free(self) -> Amount:
        """What is left; nothing of a card that is not healthy."""
        return self.card.total.minus(self.used) if self.card.is_healthy else NOTHING

    @property
    def is_idle(self) -> bool:
        """Whether no pod has anything of it."""
        return self.used == NOTHING


class NodeCards(NamedTuple):
    """The cards of one node in one family, in the plugin's order, and what is of no known card."""

    family: str
    cards: tuple[CardUsage, ...]
    unassigned: Amount = NOTHING

    @property
    def total(self) -> Amount:
        """The sum over its cards."""
        return total_of(each.card.total for each in self.cards)

    @property
    def used(self) -> Amount:
        """What pods take of the node, of known cards and others."""
        return total_of((*(each.used for each in self.cards), self.unassigned))

    @property
    def free(self) -> Amount:
        """What is left on its healthy cards, less the amounts of pods whose card is unknown."""
        return total_of(each.free for each in self.cards).minus(self.unassigned)


def total_of(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of amounts."""
    found = NOTHING
    for amount in amounts:
        found = found.plus(amount)
    return found


@dataclass(frozen=True, slots=True)
class CardsSnapshot:
    """The shared cards of all nodes at one moment; `changed` since the snapshot of `before`."""

    version: int = 0
    nodes: Mapping[NodeName, NodeCards] = field(default_factory=dict)
    before: int = -1
    changed: frozenset[NodeName] = frozenset()


NO_CARDS = CardsSnapshot()


class CardBook:
    """The shared cards of all nodes. Mutable; one owner sets nodes and pods as they are seen."""

    def __init__(self) -> None:
        self._nodes: dict[NodeName, tuple[str, tuple[Card, ...]]] = {}
        self._pods: dict[str, tuple[NodeName, str, tuple[CardShare, ...]]] = {}
        self._of_node: dict[NodeName, dict[str, None]] = {}
        self._dirty: dict[NodeName, None] = {}
        self._counted: dict[NodeName, NodeCards] = {}
        self._snapshot = NO_CARDS
        self.version = 0
        """A number that grows with every change."""

    def set_node(self, node: NodeName, family: str, cards: tuple[Card, ...]) -> None:
        """Set the cards of a node; without cards the node has none."""
        before = self._nodes.get(node)
        if cards:
            self._nodes[node] = family, cards
        else:
            self._nodes.pop(node, None)
        if before != self._nodes.get(node):
            self._change(node)

    def set_pod(self, uid: str, node: NodeName, family: str, shares: tuple[CardShare, ...]) -> None:
        """Set what a pod takes of its node, in place of what it took before."""
        stated = node, family, shares
        if self._pods.get(uid) == stated:
            return
        self.remove_pod(uid)
        if shares:
            self._pods[uid] = stated
            self._of_node.setdefault(node, {})[uid] = None
            self._change(node)

    def remove_pod(self, uid: str) -> None:
        """Drop a pod; an unknown one is ignored."""
        gone = self._pods.pop(uid, None)
        if gone is None:
            return
        del self._of_node[gone[0]][uid]
        if not self._of_node[gone[0]]:
            del self._of_node[gone[0]]
        self._change(gone[0])

    def _change(self, node: NodeName) -> None:
        self._dirty[node] = None
        self.version += 1

    def node(self, node: NodeName) -> NodeCards | None:
        """Return the cards of a node and what is used of each; None without. O(its pods)."""
        stated = self._nodes.get(node)
        if stated is None:
            return None
        family, cards = stated
        totals = {card.id: card.total for card in cards}
        used = dict.fromkeys(totals, NOTHING)
        unassigned = NOTHING
        for uid in self._of_node.get(node, ()):
            _, of, shares = self._pods[uid]
            for share in shares if of == family else ():
                if share.card in used:
                    taken = totals[share.card] if share.is_whole else share.amount
                    used[share.card] = used[share.card].plus(taken)
                else:
                    unassigned = unassigned.plus(share.amount)
        return NodeCards(family, tuple(CardUsage(c, used[c.id]) for c in cards), unassigned)

    def nodes(self) -> Iterator[tuple[NodeName, NodeCards]]:
        """Yield every node with shared cards; O(nodes and their pods)."""
        for name in self._nodes:
            if (found := self.node(name)) is not None:
                yield name, found

    def snapshot(self) -> "CardsSnapshot":
        """Return all nodes now, frozen; the same value until something changes.

        O(pods of changed nodes), and a copy of the nodes.
        """
        if self._dirty:
            for name in self._dirty:
                found = self.node(name)
                if found is None:
                    self._counted.pop(name, None)
                else:
                    self._counted[name] = found
            changed = frozenset(self._dirty)
            self._dirty.clear()
            before = self._snapshot.version
            self._snapshot = CardsSnapshot(self.version, dict(self._counted), before, changed)
        return self._snapshot

    def validate(self) -> None:
        """Raise `BrokenInvariantError` with the first flaw; O(nodes and pods)."""
        indexed = {(node, uid) for node, uids in self._of_node.items() for uid in uids}
        if indexed != {(node, uid) for uid, (node, _, _) in self._pods.items()}:
            raise BrokenInvariantError("shared cards: the index of pods names others")
        for name, found in self.nodes():
            for each in found.cards:
                total, free = each.card.total, each.card.total.minus(each.used)
                over = each.used.minus(total)
                if each.used.plus(free) != total.plus(over):
                    raise BrokenInvariantError(f"shared cards: {each.card.id} of {name}: {each}")


def by_family(found: Iterable[NodeCards]) -> Mapping[str, tuple[NodeCards, ...]]:
    """Return nodes by their family."""
    groups: dict[str, list[NodeCards]] = {}
    for each in found:
        groups.setdefault(each.family, []).append(each)
    return {family: tuple(nodes) for family, nodes in groups.items()}
