"""What the garbage collector of a service is told: most of what is allocated stays.

A collection holds up every thread. One of the youngest generations looks at what was allocated
since the last one, the full one at all that is not frozen: a million objects take 0.1 s and more.
"""

import gc

THRESHOLDS = (25_000, 3, 64)
"""Python's own are 700, 10 and 10: building the tree of 10,000 nodes then spends up to half of its
time on looking through facts that all stay. What is dropped is almost never in a cycle, so many may
wait; memory stayed the same (`bench/core.py` has the variants). A collection of the second
generation looks at 100,000 objects, which takes 25 ms and comes in the middle of other work
(`bench/loop_blocks.py`)."""


def settle() -> None:
    """Takes what was imported and built so far out of the collector's sight, for good."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def keep() -> None:
    """Takes what is there now out of the collector's sight, where much came that stays; O(1).

    What is in a cycle now is then never collected, all else is freed as ever: for moments of which
    a process has a few, such as when a cluster was listed for the first time.
    """
    gc.freeze()
