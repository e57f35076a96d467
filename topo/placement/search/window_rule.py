"""The window rule: the fewest domains that hold a job, chosen so that the largest stay free.

Result: p domains, with p the least number that covers the need, such that the sorted list of what
stays free is as large as possible (leximax).

Why it is right: slide a window of p down the sorted capacities as far as its sum still covers the
need. Every choice of p domains has a largest one of at least this size. Fix that one, and repeat
with p - 1 and the rest. The slots that the job leaves are fewer than every chosen domain has, or
p - 1 domains would do; so they can stay together in one of the chosen domains. The proof is in
docs/placement.md, "The window rule".

Cost: one pass for the sums, then a binary search for each of the p.

Example: capacities 10, 9, 9 and a need of 18. The sums of two neighbours are 19 and 18: the last
window that covers the need starts at the first 9. With it fixed, 9 are missing: the last window
of one that covers them is the second 9. So 9 and 9 are taken, and 10 stays. Largest first and
best fit for the last one would take 10 and 9, and leave 9 and 1.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from operator import neg


def fewest(descending: Sequence[int], need: int) -> int | None:
    """Return the least number of capacities whose sum is at least the need; None if all are too
    little.
    """
    if need <= 0:
        return 0
    total = 0
    for count, capacity in enumerate(descending, start=1):
        total += capacity
        if total >= need:
            return count
    return None


def window(
    descending: Sequence[int], free_slots: Sequence[int], count: int, need: int
) -> list[int]:
    """Return indexes of at most `count` capacities that cover the need and leave the most; O(n + p
    log n).

    The first `count` must cover it. `free_slots` belong to the capacities, and descend as they do.
    Of equal free slots the first is taken, which is the first in natural order.
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
        # The last start may be one of several equal ones.
        low = bisect_left(free_slots, -free_slots[low], start, low, key=neg)
        chosen.append(low)
        need -= descending[low]
        start = low + 1
    return chosen
