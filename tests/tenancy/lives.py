"""Many lives of shared clusters in processes of their own.

    python -m tests.tenancy.lives --lives 20000 --seed 0 --processes 2 --of machine

A life that breaks a promise is told with its seed and what was done, and the run goes on;
`--lives 1 --seed <it>` shows it again. Exits with 1 if there was one.
"""

import argparse
import gc
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import structlog

from tests.gangs import test_hostile_life as of_machine
from tests.gangs.test_random_life import ELASTIC, GROUPED, UNLIKE
from tests.support.virtual_time import in_virtual_time
from tests.tenancy.life import STEPS, ExtenderLife, SharedLife
from tests.tenancy.second_life import SecondLife


def live_on_machine(seed: int) -> None:
    """A life of the machine alone; of each four one has elastic jobs, one PodGroups, and one pods
    that ask for different numbers of GPUs. A million of them are different.
    """
    of_machine.live(seed % ELASTIC + (0, ELASTIC, GROUPED, UNLIKE)[seed % 4])


def live_whole(seed: int) -> None:
    """A life of the whole adapter, from objects to writes."""
    in_virtual_time(SharedLife(seed).live(STEPS))


def live_by_extender(seed: int) -> None:
    """The same without webhook and gates, by a kube-scheduler that asks the extender."""
    in_virtual_time(ExtenderLife(seed).live(STEPS))


def live_twice(seed: int) -> None:
    """A life of the whole adapter whose jobs are stopped, scaled and started again."""
    in_virtual_time(SecondLife(seed).live(STEPS))


LIVES_OF_GARBAGE = 10
LIVES: Mapping[str, Callable[[int], None]] = {
    "machine": live_on_machine,
    "whole": live_whole,
    "extender": live_by_extender,
    "second": live_twice,
}


def outcome(live: Callable[[int], None], seed: int) -> tuple[int, str]:
    """Return the seed, and what was broken; empty for nothing."""
    if seed % LIVES_OF_GARBAGE == 0:
        gc.unfreeze()  # each master that starts has excluded what lives before it left
        gc.collect()
    try:
        live(seed)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its seed
        return seed, f"{type(error).__name__}: {error}"
    return seed, ""


def many(of: str, seed: int, lives: int, processes: int) -> Iterator[tuple[int, str]]:
    """Yield the outcomes of these seeds, in their order."""
    quiet = partial(
        structlog.configure,
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
    )
    with ProcessPoolExecutor(processes, initializer=quiet) as pool:
        yield from pool.map(
            partial(outcome, LIVES[of]), range(seed, seed + lives), chunksize=min(25, lives)
        )


def main() -> int:
    """Run, and tell what was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--of", choices=[*LIVES], default="whole")
    asked = parser.parse_args()
    began_s, told = time.monotonic(), Counter[bool]()
    for seed, why in many(asked.of, asked.seed, asked.lives, asked.processes):
        told[not why] += 1
        if why:
            sys.stdout.write(f"seed {seed}: {why}\n")
        if why or told.total() % 500 == 0:
            took_s = time.monotonic() - began_s
            sys.stdout.write(
                f"{told.total()} lives of the {asked.of}, {told[False]} broken, {took_s:.0f} s\n"
            )
            sys.stdout.flush()
    sys.stdout.write(f"{told.total()} lives of the {asked.of}, {told[False]} broken\n")
    return 1 if told[False] else 0


if __name__ == "__main__":
    sys.exit(main())
