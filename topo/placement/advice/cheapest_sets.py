"""The cheapest of all sets of changes that are enough, found by trying them in order of cost.

Result: a set that is enough, and no cheaper one is; None where none is found in so many trials.

Why it is right: sorted by cost, each set but the empty one comes from exactly one other: from the
set without its last change, or, if its last change is not right behind the one before, from the
set with that change instead of the last. Both cost no more. So a queue that gives out the cheapest
set, and takes in the two that come from it, gives out all sets in the order of their cost.

Cost: one trial and two entries of a queue for each set that is tried.

Example: changes a, b and c cost 1, 2 and 4. The order: a 1, b 2, ab 3, c 4, ac 5, bc 6, abc 7.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol, TypeVar


class Priced(Protocol):
    """What costs something, and has a name."""

    @property
    def name(self) -> str:
        """The name; equal costs are tried in its order."""

    @property
    def cost(self) -> int:
        """The cost, at least 0."""


_Priced = TypeVar("_Priced", bound=Priced)


@dataclass(slots=True)
class Trials:
    """How many sets may be tried still; counted, not timed, so that answers repeat."""

    left: int
    whole: "Trials | None" = None

    def some(self, most: int) -> "Trials":
        """Return at most so many of these."""
        return Trials(min(most, self.left), self)

    def take(self) -> bool:
        """Take one; False where none is left."""
        if self.left <= 0 or (self.whole is not None and not self.whole.take()):
            return False
        self.left -= 1
        return True


def cheapest_set(
    changes: Sequence[_Priced],
    enough: Callable[[Sequence[_Priced]], bool],
    trials: Trials,
    below: int | None = None,
) -> list[_Priced] | None:
    """Return the cheapest changes that are enough, of less than a cost; None: none was found.

    Of equal costs the set with fewer changes, then the one that comes first by cost and name.
    """
    ranked = sorted(changes, key=lambda one: (one.cost, one.name))
    queue: list[tuple[int, int, tuple[int, ...]]] = []
    if ranked:
        heappush(queue, (ranked[0].cost, 1, (0,)))
    while queue:
        cost, number, places = heappop(queue)
        if (below is not None and cost >= below) or not trials.take():
            return None
        chosen = [ranked[at] for at in places]
        if enough(chosen):
            return chosen
        last = places[-1]
        if last + 1 < len(ranked):
            more = ranked[last + 1].cost
            heappush(queue, (cost + more, number + 1, (*places, last + 1)))
            swapped = cost - ranked[last].cost + more
            heappush(queue, (swapped, number, (*places[:-1], last + 1)))
    return None
