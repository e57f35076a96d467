"""GPUManager's tree of the cards of one node, and its three ways to choose among them.

Finds which cards a pod should get: `link` several whole cards with the shortest way between them,
`fragment` one whole card out of the part of the tree with the fewest free ones, `share` the part of
a card on the fullest card that fits.

The tree: a level for each kind of way between two cards, nearest first (PIX, PXB, PHB, NODE, SYS);
two cards are under one vertex of a level if a chain of ways no longer than that joins them.
Vertices with the same cards are one. So every card is a leaf, and the lowest common vertex of two
leaves says how far apart they are.

- link: from every leaf up to the lowest vertex with enough free leaves; of these the one of the
  nearest level, then with the fewest free leaves, then with the lowest card; its first free leaves.
- fragment: from the root down, always into the vertex with the fewest free leaves that has enough;
  the first free leaf there. That keeps large free parts of the tree for `link`.
- share: of the cards that have enough left, the one with the fewest free cores, then memory.

Source: tkestack/gpu-manager pkg/algorithm/nvidia/{link,fragment,share}.go and pkg/device/nvidia/
tree.go. It is best fit on a tree. Its sorters also count processes, which nobody reports here.

Cost: O(cards² x levels) to build, O(cards x levels) to choose.

Example (published): cards 0-1, 2-3, 4-5 joined by PIX, 0 to 3 by PHB, all by the system.
    link 3      0, 1, 2: the PHB vertex of 0 to 3 has four free
    fragment 1, card 4 in use: 5, since its vertex has one free card and the other four
    share 60, card 0 has 50 left: 1
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from topo.shared_cards.cards import Amount

Levels = Sequence[Sequence[int]]
"""How far each card is from each other one: larger is farther. Square and symmetric."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """Cards that are joined within a level, ascending; `children` are nearer ones."""

    level: int
    cards: tuple[int, ...]
    children: tuple["Vertex", ...] = ()

    def free(self, idle: Collection[int]) -> tuple[int, ...]:
        """Return its free cards, ascending."""
        return tuple(card for card in self.cards if card in idle)


def tree(levels: Levels) -> Vertex:
    """Return the root of the tree over cards 0 to n - 1; without ways all hang at the root."""
    vertices = [Vertex(0, (card,)) for card in range(len(levels))]
    known = {levels[a][b] for a in range(len(levels)) for b in range(len(levels)) if a != b}
    for level in sorted(known):
        joined = _joined(vertices, levels, level)
        vertices = [group[0] if len(group) == 1 else _vertex(level, group) for group in joined]
    return vertices[0] if len(vertices) == 1 and vertices[0].children else _vertex(0, vertices)


def _vertex(level: int, children: Sequence[Vertex]) -> Vertex:
    cards = tuple(sorted(card for child in children for card in child.cards))
    return Vertex(level, cards, tuple(sorted(children, key=lambda child: child.cards)))


def _joined(vertices: Sequence[Vertex], levels: Levels, level: int) -> list[list[Vertex]]:
    """Return the vertices in groups that ways of at most this level join."""
    groups: list[list[Vertex]] = []
    for vertex in vertices:
        near = [
            group
            for group in groups
            if any(levels[a][b] <= level for v in group for a in v.cards for b in vertex.cards)
        ]
        merged = [vertex, *(each for group in near for each in group)]
        groups = [group for group in groups if group not in near] + [merged]
    return groups


def link(root: Vertex, idle: Collection[int], number: int) -> tuple[int, ...] | None:
    """Return so many idle cards with the shortest way between them; None where there are fewer."""
    found = [vertex for vertex in _below(root) if len(vertex.free(idle)) >= number]
    lowest = [
        each for each in found if not any(set(other.cards) < set(each.cards) for other in found)
    ]
    if not lowest:
        free = root.free(idle)
        return free[:number] if len(free) >= number else None
    best = min(lowest, key=lambda each: (each.level, len(each.free(idle)), each.cards))
    return best.free(idle)[:number]


def _below(vertex: Vertex) -> Iterable[Vertex]:
    """Yield every vertex below one, leaves included."""
    for child in vertex.children:
        yield child
        yield from _below(child)


def fragment(root: Vertex, idle: Collection[int], number: int = 1) -> tuple[int, ...] | None:
    """Return so many idle cards out of the smallest free part of the tree; None for fewer."""
    at = root
    while True:
        inner = [child for child in at.children if child.children]
        fits = [child for child in inner if len(child.free(idle)) >= number]
        if not fits:
            break
        at = min(fits, key=lambda child: (len(child.free(idle)), child.cards))
    free = at.free(idle)
    return free[:number] if len(free) >= number else None


def share(free: Sequence[Amount], wanted: Amount) -> int | None:
    """Return the fullest card with so much left; None where none has."""
    fits = [card for card, left in enumerate(free) if left.holds(wanted)]
    return min(fits, key=lambda card: (free[card].cores, free[card].memory, card), default=None)
