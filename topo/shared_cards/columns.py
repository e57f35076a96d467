"""The cards of many nodes as columns of numbers, which a request is compared with at once.

A node is a column, its nth card the nth row of it; a column is filled up with cards that fit
nothing. A node that goes leaves its place to the last one.

Cost: O(cards) for a node that changes; O(nodes x cards) for a request, in array operations: 0.3 ms
for 5,000 nodes of 8 cards.

Example: node `a` has cards with 30 and 100 cores left, `b` one with 60. A pod of 50 cores gets 100
of `a` and 60 of `b`:

    cores  30  60      fits  no   yes     least that fits  100  60
          100  -1            yes  no
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from topo.shared_cards.cards import NOTHING, CardUsage, NodeCards
from topo.shared_cards.choice import left
from topo.shared_cards.families import FAMILIES, GPU_MANAGER
from topo.shared_cards.requests import CardRequest

NO_ROOM = -1
"""The order of a node that has no place for a request."""
_NO_CARD = -1
_ANY = (1 << 62) - 1
"""Above all amounts; larger ones are cut to it."""
_COLUMNS, _ROWS = 64, 8
"""For so many nodes, of so many cards, there is room at first."""
_Array = npt.NDArray[np.int64]


class CardColumns:
    """What is left on the cards of each node. Mutable; one owner sets nodes and asks."""

    def __init__(self) -> None:
        self.names: list[str] = []
        """The nodes in the order of their columns."""
        self._columns: dict[str, int] = {}
        # Of each card that takes parts cores and memory left, and all memory; then, of each
        # idle card that takes a pod alone, all memory.
        self._cards = _filled(4, _ROWS, _COLUMNS)
        # Of each node its family, how many cards are idle, and the cores that pods may have
        # together, where some have cards that nobody names.
        self._nodes = _filled(3, _COLUMNS)

    def __len__(self) -> int:
        return len(self.names)

    def set_node(self, name: str, found: NodeCards) -> None:
        """Set the cards of a node, in place of what it had. O(cards)."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = len(self.names)
            self.names.append(name)
        self._make_room(len(found.cards))
        self._cards[:, :, column] = _NO_CARD
        parts, whole, idle = _numbers(found)
        for row, card in enumerate(parts):
            self._cards[:3, row, column] = card
        self._cards[3, : len(whole), column] = whole
        is_limited = found.family == GPU_MANAGER and found.unassigned.cores
        together = found.free.cores if is_limited else _ANY
        self._nodes[:, column] = FAMILIES.index(found.family), idle, min(together, _ANY)

    def remove_node(self, name: str) -> None:
        """Drop a node; an unknown one is ignored. O(cards)."""
        column = self._columns.pop(name, None)
        if column is None:
            return
        last = self.names.pop()
        if last != name:
            self.names[column] = last
            end = self._columns[last]
            self._columns[last] = column
            self._cards[:, :, column] = self._cards[:, :, end]
            self._nodes[:, column] = self._nodes[:, end]

    def _make_room(self, cards: int) -> None:
        """Double what is too small."""
        _, has_rows, has_columns = self._cards.shape
        rows, columns = has_rows, has_columns
        while rows < cards:
            rows *= 2
        while columns < len(self.names):
            columns *= 2
        if (rows, columns) != (has_rows, has_columns):
            more = (0, columns - has_columns)
            wider = ((0, 0), (0, rows - has_rows), more)
            self._cards = np.pad(self._cards, wider, constant_values=_NO_CARD)
            self._nodes = np.pad(self._nodes, ((0, 0), more), constant_values=_NO_CARD)

    def orders(self, request: CardRequest) -> list[int]:
        """Return by what each node is ordered for a request, the least first, or `NO_ROOM`.

        In the order of `names`.
        """
        return self._orders(request, slice(0, len(self.names)))

    def orders_of(self, request: CardRequest, names: Iterable[str]) -> Sequence[tuple[str, int]]:
        """Return those of the named nodes that have cards, with their orders."""
        known = [name for name in names if name in self._columns]
        at = [self._columns[name] for name in known]
        return list(zip(known, self._orders(request, at), strict=True)) if known else ()

    def _orders(self, request: CardRequest, at: Any) -> list[int]:
        (_, cores, memory), is_managers = request.each, request.family == GPU_MANAGER
        left_cores, left_memory, all_memory, idle_memory = self._cards[:, :, at]
        family, idle, together = self._nodes[:, at]
        if request.is_whole:
            fits = idle_memory >= (0 if is_managers else min(memory, _ANY))
            found, wanted = idle, request.number
        else:
            needed = min(memory, _ANY) if memory else all_memory
            fits = (left_cores >= min(cores, _ANY)) & (left_memory >= needed)
            found = np.where(fits, left_cores, _ANY).min(axis=0)
            wanted = 1 if is_managers else request.number
        is_right = (family == FAMILIES.index(request.family)) & (
            min(request.number * cores, _ANY) <= together
        )
        has_room = is_right & (np.count_nonzero(fits, axis=0) >= wanted)
        orders: list[int] = np.where(has_room, found, NO_ROOM).tolist()
        return orders


def _numbers(found: NodeCards) -> tuple[list[tuple[int, int, int]], list[int], int]:
    """Return the parts, the whole cards and the count of idle ones of a node."""
    is_managers = found.family == GPU_MANAGER
    parts, whole, idle = list[tuple[int, int, int]](), list[int](), 0
    for usage in found.cards:
        is_idle = usage.used == NOTHING
        idle += is_idle
        if not usage.card.is_healthy:
            continue
        if is_idle:
            whole.append(min(usage.card.total.memory, _ANY))
        if (part := _part(usage, is_managers=is_managers)) is not None:
            parts.append(part)
    return parts, whole, idle


def _part(usage: CardUsage, *, is_managers: bool) -> tuple[int, int, int] | None:
    """Return what a card has left for one more pod; None if nothing joins it."""
    (_, total, *_), used = usage
    cores, memory = left(usage)
    is_shared_out = 0 < total.shares <= used.shares and not is_managers
    if is_shared_out or (total.cores > 0 and not cores):
        return None
    return min(cores, _ANY), min(memory, _ANY), min(total.memory, _ANY)


def _filled(*shape: int) -> _Array:
    return np.full(shape, _NO_CARD, dtype=np.int64)
