"""Mutated objects in rounds, each of its own seed and through a master of its own.

    python -m tests.mutated.rounds --objects 1000000 --seed 0 --processes 2

A round that breaks a promise ends the run with its seed: `--rounds 1 --seed <it>` shows it again.
"""

import argparse
import asyncio
import gc
import logging
import random
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

import structlog

from tests.mutated.doors import open_doors
from tests.mutated.mutation import Mutation
from tests.mutated.samples import Document, all_samples
from tests.support.virtual_time import VirtualTimeLoop

OBJECTS = 500
"""Objects of a round."""
AT_ONCE = 20
"""Objects between two turns of the controllers."""


@lru_cache(maxsize=1)
def _samples() -> tuple[Document, ...]:
    return all_samples()


class TimedLoop(VirtualTimeLoop):
    """A loop that knows the longest of its iterations, in seconds of the processor.

    `is_own`: the present iteration is one of who measures, and does not count.
    """

    def __init__(self) -> None:
        super().__init__()
        self.longest_s, self.is_own = 0.0, False

    def _run_once(self) -> None:
        began_s = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        if not self.is_own:
            self.longest_s = max(self.longest_s, time.thread_time() - began_s)
        self.is_own = False


@dataclass
class Round:
    """What came of one round. `longest_s`: by door, of one object, or of one step of the loop."""

    seed: int
    objects: int = 0
    read: int = 0
    refused: int = 0
    gangs: int = 0
    longest_s: dict[str, tuple[float, int]] = field(default_factory=dict)
    flaws: list[str] = field(default_factory=list)

    def note(self, door: str, took_s: float, at: int) -> None:
        if took_s > self.longest_s.get(door, (0.0, 0))[0]:
            self.longest_s[door] = (took_s, at)


def run_round(seed: int, objects: int = OBJECTS) -> Round:
    """One round in virtual time."""
    found = Round(seed)
    gc.unfreeze()  # the master of the round before has excluded what it left
    gc.collect()
    gc.disable()  # a collection is no step of anybody
    try:
        with asyncio.Runner(loop_factory=TimedLoop) as runner:
            runner.run(_round(found, objects))
            loop = runner.get_loop()
            assert isinstance(loop, TimedLoop)
    finally:
        gc.enable()
    return found


async def _round(found: Round, objects: int) -> None:
    rng = random.Random(found.seed)  # noqa: S311 - a seed for a test
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TimedLoop)
    async with open_doors() as doors:
        mutation = Mutation(_samples(), rng, doors.words)
        before: Document = {}
        for at in range(objects):
            document = mutation.draw()
            found.objects += 1
            for door, enter in (
                ("webhook", lambda: doors.judge(document, before, rng)),  # noqa: B023 - at once
                ("watch", lambda: doors.bring(document)),  # noqa: B023 - at once
            ):
                began_s = time.thread_time()
                try:
                    enter()
                except Exception:  # noqa: BLE001 - any is what is looked for
                    text = traceback.format_exc()
                    found.flaws.append(f"seed {found.seed}, object {at}, {door}: {text}")
                found.note(door, time.thread_time() - began_s, at)
            before = document
            if at % AT_ONCE == 0:
                loop.longest_s, loop.is_own = 0.0, True
                await asyncio.sleep(rng.choice((0.05, 0.3, 2.0)))
                found.note("loop", loop.longest_s, at)
                found.gangs = max(found.gangs, len(doors.words()))
                raised = doors.errors()
                for text in raised:
                    found.flaws.append(f"seed {found.seed}, up to object {at}, loop: {text}")
                if raised:
                    break
        found.read, found.refused = doors.read, doors.refused


def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def many(seed: int, rounds: int, processes: int) -> Iterator[Round]:
    """Yield the rounds of these seeds, in their order."""
    with ProcessPoolExecutor(processes, initializer=_quiet) as pool:
        yield from pool.map(run_round, range(seed, seed + rounds))


def main() -> int:
    """Run; return 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    rounds = asked.rounds or -(-asked.objects // OBJECTS)
    total, longest, flaws = Round(asked.seed), dict[str, tuple[float, str]](), 0
    for each in many(asked.seed, rounds, asked.processes):
        total.objects += each.objects
        total.read += each.read
        for door, (took_s, at) in each.longest_s.items():
            longest[door] = max(longest.get(door, (0.0, "")), (took_s, f"{each.seed}/{at}"))
        for flaw in each.flaws:
            flaws += 1
            sys.stdout.write(flaw + "\n")
        if each.seed % 100 == 99 or each.flaws:
            sys.stdout.write(f"{total.objects} objects, {flaws} exceptions, longest {longest}\n")
            sys.stdout.flush()
    sys.stdout.write(
        f"{total.objects} objects, {total.read} read by watches, {flaws} exceptions, "
        f"longest step {longest}\n"
    )
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())
