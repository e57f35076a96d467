"""The cheapest way to take so many groups, and the tail or not, from several items.

Result: for each number of groups, with and without the tail, the least cost, and which items give
it.

Why it is right: the usual knapsack recurrence. The best way to reach a state with the items so
far either does not use the last item, or uses one of its options on top of the best way to reach
the state that is smaller by that option.

Cost: states x options of each item. All tables are kept, so that the choice can be read back.

Example: two items, each of which gives 1 group at cost 3 or 2 groups at cost 4. Tables by groups:

    no item           0 groups 0
    the first item    0 groups 0, 1 group 3, 2 groups 4
    both items        0 groups 0, 1 group 3, 2 groups 4, 3 groups 7, 4 groups 8

3 groups cost 7: 2 of one item (4) and 1 of the other (3).
"""

from collections.abc import Sequence

Option = tuple[int, int, int]
"""Groups, tails (0 or 1), cost."""
Table = list[int | None]
"""The least cost of each state; state x + t * (m + 1) is x groups and t tails."""


class Knapsack:
    """Items, each of which may be used in one of its ways or not at all; costs add up."""

    def __init__(self, groups: int, tails: int) -> None:
        self._groups, self._tails = groups, tails
        first: Table = [None] * ((groups + 1) * (tails + 1))
        first[0] = 0
        self._tables = [first]
        self._options: list[Sequence[Option]] = []

    def add(self, options: Sequence[Option], rest: int = 0) -> None:
        """Add an item. States that the `rest` of the groups cannot complete are dropped."""
        before = self._tables[-1]
        after = before[:]
        width = self._groups + 1
        # With fewer groups than that, the items still to come are not enough.
        least = self._groups - rest if rest else 0
        for state, cost in enumerate(before):
            if cost is None:
                continue
            groups, tails = state % width, state // width
            # Each state may stay as it is, or use the item in one of its ways.
            for x, t, more in options:
                if groups + x > self._groups or tails + t > self._tails or groups + x < least:
                    continue
                at = state + x + t * width
                known = after[at]
                if known is None or cost + more < known:
                    after[at] = cost + more
        self._tables.append(after)
        self._options.append(options)

    @property
    def table(self) -> Table:
        """The least cost of each state over all items so far."""
        return self._tables[-1]

    def picks(self, groups: int, tails: int) -> list[tuple[int, int, int]]:
        """Return how a state is reached at its least cost: (item, groups, tails) of items used."""
        width = self._groups + 1
        state = groups + tails * width
        found = []
        for item in range(len(self._options) - 1, -1, -1):
            cost, before = self._tables[item + 1][state], self._tables[item]
            # The item changed nothing for this state: it is not used.
            if before[state] == cost:
                continue
            for x, t, more in self._options[item]:
                # Walk back over the way that explains the cost of the state.
                at = state - x - t * width
                left = before[at] if at >= 0 and state % width >= x else None
                if cost is not None and left is not None and left + more == cost:
                    found.append((item, x, t))
                    state = at
                    break
        return found[::-1]
