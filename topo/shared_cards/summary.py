"""What is left of the shared cards of each family, over all nodes."""

from collections.abc import Iterable
from dataclasses import dataclass

from topo.shared_cards.cards import Amount, NodeCards, by_family, total_of


@dataclass(frozen=True, slots=True)
class FamilySummary:
    """The cards of one family; `idle`: of which no pod has anything.

    `largest` is what is left of the healthy card with the most cores free, of equal ones with the
    most memory: the largest part that a pod could get.
    """

    family: str
    nodes: int
    cards: int
    idle: int
    total: Amount
    used: Amount
    free: Amount
    largest: Amount


def summaries(found: Iterable[NodeCards]) -> tuple[FamilySummary, ...]:
    """Return a summary of each family, by name; O(cards)."""
    return tuple(_summary(family, nodes) for family, nodes in sorted(by_family(found).items()))


def _summary(family: str, nodes: tuple[NodeCards, ...]) -> FamilySummary:
    cards = [usage for node in nodes for usage in node.cards]
    parts = (usage.free for usage in cards)
    return FamilySummary(
        family=family,
        nodes=len(nodes),
        cards=len(cards),
        idle=sum(usage.is_idle and usage.card.is_healthy for usage in cards),
        total=total_of(node.total for node in nodes),
        used=total_of(node.used for node in nodes),
        free=total_of(node.free for node in nodes),
        largest=max(parts, key=lambda free: (free.cores, free.memory), default=Amount()),
    )
