"""Garbage collection of a service, in which most objects live long.

A collection stops every thread. A young collection visits the objects created since the last one, a
full collection all objects that are not frozen: a million objects take 0.1 s and more. Almost no
object dies in a cycle, so collections find little.

Python starts a young collection after a number of objects made *minus those freed*. When a tree of
10,000 nodes replaces another, as many are freed as made, so the next collection comes late and
visits half a million objects: 0.14 s. `collect_often` collects by the clock instead.

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


def freeze_startup() -> None:
    """Collect once, then exclude all objects that exist now, and set the thresholds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def freeze() -> None:
    """Exclude all objects that exist now from collections; O(1).

    Cycles among them are never collected, everything else is freed as usual. For rare moments in
    which many long-lived objects came, such as the first list of a cluster.
    """
    gc.freeze()


async def collect_often() -> None:
    """Collect the objects of the last 20 ms, until cancelled; O(1) if there are none.

    When the process has grown beyond its former peak, its objects are frozen, so a full collection
    visits few. Memory is bounded, and so is how often that happens.
    """
    most_blocks = sys.getallocatedblocks()
    while True:
        for _ in range(_LOOKS_BEFORE_SIZE):
            await asyncio.sleep(LOOK_S)
            gc.collect(1)
        if (blocks := sys.getallocatedblocks()) > most_blocks + GROWN_BLOCKS:
            freeze()
            most_blocks = blocks
