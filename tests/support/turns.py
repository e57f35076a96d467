"""How often others have their turn on the loop while something is done."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Turns:
    """Turns so far of a task that always wants one."""

    number: int = 0


@contextmanager
def turns_beside() -> Iterator[Turns]:
    """Counts while the block runs."""
    turns = Turns()

    async def others() -> None:
        while True:
            turns.number += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    try:
        yield turns
    finally:
        beside.cancel()
