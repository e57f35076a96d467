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

THRESHOLDS = (25_000, 0, 10_000)
"""Python's own are 700, 10 and 10: building the tree of 10,000 nodes then spends up to half of its
time on looking through facts that all stay. What is dropped is almost never in a cycle, so many may
wait; memory stayed the same (`bench/core.py` has the variants). Of the second generation every
other is one, so that none looks at more than 50,000 objects, which takes 10 ms
(`bench/loop_blocks.py`); a full one comes after ten thousand of those at the soonest."""
LOOK_S = 0.02


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
    """Looks at what was made in the last 20 ms, until cancelled; O(1) where nothing was."""
    while True:
        await asyncio.sleep(LOOK_S)
        gc.collect(1)
