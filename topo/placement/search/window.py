"""Which domains to take: the fewest that hold the need, and of those the ones missed least.

The leximax lemma: keep the sorted vector of free capacities as large as possible. With the least
number p of domains, slide a window of p down the sorted capacities as far as its sum still covers
the need, fix its first, and repeat with p - 1 and the rest. What is left over is smaller than every
chosen domain and stays whole in any one of them. Largest first and best fit for the last one is not
optimal: of 10, 9, 9 it takes 10 and 9 for a need of 18, the window takes 9 and 9.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from operator import neg


def fewest(descending: Sequence[int], need: int) -> int | None:
    """The least number of capacities whose sum is at least the need; None if all are too little."""
    if need <= 0:
        return 0
    total = 0
    for count, capacity in enumerate(descending, start=1):
        total += capacity
        if total >= need:
            return count
    return None


def window(descending: Sequence[int], rooms: Sequence[int], count: int, need: int) -> list[int]:
    """Indexes of at most `count` capacities that cover the need and leave the most; O(p log n).

    The first `count` must cover it. `rooms` run along and break ties: of equal rooms the first is
    taken, which is the first in natural order.
    """
    sums = [0, *accumulate(descending)]
    chosen: list[int] = []
    start, size = 0, len(descending)
    for left in range(count, 0, -1):
        if need <= 0:
            break
        low, high = start, size - left
        while low < high:
            middle = (low + high + 1) // 2
            if sums[middle + left] - sums[middle] >= need:
                low = middle
            else:
                high = middle - 1
        low = bisect_left(rooms, -rooms[low], start, low, key=neg)
        chosen.append(low)
        need -= descending[low]
        start = low + 1
    return chosen
