"""Which node and which of its shared cards a pod should get: a hint, for one pod at a time.

- `binpack`: parts go onto the fullest card that fits, so that whole cards stay; whole cards go to
  the node with the fewest idle ones that has enough.
- `spread`: parts go onto the emptiest card, whole cards to the node with the most idle ones.
- `gpu-manager`'s own three ways decide inside its nodes (`tree`).

How full a card is goes by its cores, inside a node by its memory after that. Between equals the
node's natural name decides, inside a node the order of its plugin.
Cost: O(cards of all nodes), and sorting those that fit.

Example: cards with 30, 60 and 100 percent free; a pod of 50 percent. binpack: the card with 60.
spread: the card with 100.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from topo.model.ids import NodeName, natural_key
from topo.shared_cards.cards import Amount, CardUsage, NodeCards
from topo.shared_cards.families import GPU_MANAGER
from topo.shared_cards.requests import CardRequest
from topo.shared_cards.tree import Levels, fragment, link, share, tree

MOST_SCORE = 10


class CardPolicy(StrEnum):
    """Whether pods are packed onto cards that are in use, or kept apart."""

    BINPACK = "binpack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class CardChoice:
    """The cards of one node; `score` is 10 of the best node, less of others, at least 1."""

    node: NodeName
    cards: tuple[str, ...]
    score: int
    way: str


def fits(usage: CardUsage, request: CardRequest) -> bool:
    """Return whether one card can take one part of the request."""
    if not usage.card.is_healthy:
        return False
    # Plain numbers: this runs for each card of the cluster.
    total, used, each = usage.card.total, usage.used, request.each
    if request.is_whole:
        return usage.is_idle and total.memory >= each.memory
    if total.shares > 0 and total.shares - used.shares < each.shares:
        return False
    cores, memory = left(usage)
    # Volcano and HAMi: nothing joins a card whose cores are all taken.
    is_full = total.cores > 0 and not cores
    return not is_full and cores >= each.cores and memory >= (each.memory or total.memory)


def left(usage: CardUsage) -> tuple[int, int]:
    """Return the cores and the memory that are left of a healthy card."""
    total, used = usage.card.total, usage.used
    return max(0, total.cores - used.cores), max(0, total.memory - used.memory)


def choose(
    found: NodeCards, request: CardRequest, policy: CardPolicy, levels: Levels | None = None
) -> tuple[tuple[str, ...], str] | None:
    """Return the cards of one node for a request and the way they were chosen; None: no room.

    `levels`: how far its cards are from each other, where that is known.
    """
    if found.family != request.family:
        return None
    if found.family == GPU_MANAGER:
        return _by_manager(found, request, levels)
    able = [usage for usage in found.cards if fits(usage, request)]
    if len(able) < request.number:
        return None
    able.sort(key=left, reverse=policy is CardPolicy.SPREAD)
    return tuple(usage.card.id for usage in able[: request.number]), policy.value


def _by_manager(
    found: NodeCards, request: CardRequest, levels: Levels | None
) -> tuple[tuple[str, ...], str] | None:
    number = len(found.cards)
    if found.unassigned.cores and found.free.cores < request.number * request.each.cores:
        return None
    if not request.is_whole:
        at = share([usage.free for usage in found.cards], Amount(0, *request.each[1:]))
        return None if at is None else ((found.cards[at].card.id,), "share")
    is_square = levels is not None and len(levels) == number
    root = tree(levels if is_square and levels is not None else [[1] * number] * number)
    idle = {at for at, usage in enumerate(found.cards) if usage.card.is_healthy and usage.is_idle}
    way = "link" if request.number > 1 else "fragment"
    chosen = (link if request.number > 1 else fragment)(root, idle, request.number)
    return None if chosen is None else (tuple(found.cards[at].card.id for at in chosen), way)


def rank(
    nodes: Iterable[tuple[NodeName, NodeCards]],
    request: CardRequest,
    policy: CardPolicy,
    levels: Mapping[NodeName, Levels] | None = None,
) -> list[CardChoice]:
    """Return the nodes that can take the pod, the best first, with the cards of each."""
    ways = levels or {}
    able: list[tuple[int, NodeName, tuple[str, ...], str]] = []
    for name, found in nodes:
        chosen = choose(found, request, policy, ways.get(name))
        if chosen is not None:
            cards, way = chosen
            free = (
                sum(usage.is_idle for usage in found.cards)
                if request.is_whole
                else min(left(usage)[0] for usage in found.cards if usage.card.id in cards)
            )
            able.append((free, name, cards, way))
    sign = 1 if policy is CardPolicy.BINPACK else -1
    able.sort(key=lambda each: (sign * each[0], natural_key(each[1])))
    places = {free: at for at, free in enumerate(dict.fromkeys(free for free, *_ in able))}
    last = max(places.values(), default=0) or 1
    return [
        CardChoice(name, cards, MOST_SCORE - (MOST_SCORE - 1) * places[free] // last, way)
        for free, name, cards, way in able
    ]
