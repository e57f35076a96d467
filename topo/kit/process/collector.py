"""What the garbage collector of a service is told: most of what is allocated stays.

A collection holds up every thread. One of the youngest looks at what was made since the last one,
the full one at all that is not frozen: a million objects take 0.1 s and more. Nearly nothing that
is dropped is in a cycle, so none of them finds much.

Python begins one of the youngest after so many objects made, *less those freed*. Where a tree of
10,000 nodes takes the place of another as many are freed as made, so that the next collection comes
late and finds half a million of them: 0.14 s. `look_often` looks by the clock instead.

    made 500,000, freed 500,000    Python's count 0       the next collection: 500,000 objects
    the same, looked at each 20 ms                        each: what 20 ms can make, 15 ms at most
"""

import asyncio
import gc
import sys

THRESHOLDS = (25_000, 0, 100_000)
"""Python's own are 700, 10 and 10: building the tree of 10,000 nodes then spends up to half of its
time on looking through facts that all stay. What is dropped is almost never in a cycle, so many may
wait; memory stayed the same (`bench/discovery/core.py` has the variants). Of the second generation
every other is one, so that none looks at more than 50,000 objects, which takes 10 ms
(`bench/discovery/loop_blocks.py`); a full one comes after half an hour of looks at the soonest."""
LOOK_S = 0.02
GROWN_BLOCKS = 250_000
"""Blocks of memory more than there ever were; to look at the objects in them takes 30 ms."""
_LOOKS_BEFORE_SIZE = 25
"""To count the blocks of 500 MiB takes 0.6 ms."""


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


async def look_often() -> None:
    """Looks at what was made in the last 20 ms, until cancelled; O(1) where nothing was.

    Where the process has grown beyond all that it ever held, that is kept: so a full collection has
    little to look at, and as memory is bounded, so is how often something is kept.
    """
    most_blocks = sys.getallocatedblocks()
    while True:
        for _ in range(_LOOKS_BEFORE_SIZE):
            await asyncio.sleep(LOOK_S)
            gc.collect(1)
        if (blocks := sys.getallocatedblocks()) > most_blocks + GROWN_BLOCKS:
            keep()
            most_blocks = blocks
