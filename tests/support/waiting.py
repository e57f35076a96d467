"""Waiting for what must come: no verdict depends on how fast the machine is.

A test waits for an event or a state, never for a time. `CEILING_S` only decides when to give up
what will not come any more: it is far above what the slowest machine needs, and no test that
passes ever waits so long.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection

CEILING_S = 120.0
_LOOK_S = 0.01
"""Between two looks at something that cannot tell when it changes: a file, another process."""


_REST = 3.0
"""How many times longer than a look it rests: who looks leaves the machine to who works."""


async def eventually(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Returns when it holds; raises `TimeoutError` after `CEILING_S` of the loop's time."""
    async with asyncio.timeout(CEILING_S):
        while not await _looked(holds):
            pass


async def eventually_nothing(found: Callable[[], Awaitable[Collection[object]]]) -> None:
    """As `eventually`, until nothing is found any more; fails with what was found last."""
    last: Collection[object] = ["no look has come to its end"]

    async def is_nothing() -> bool:
        nonlocal last
        last = await found()
        return not last

    try:
        await eventually(is_nothing)
    except TimeoutError:
        lines = "\n".join(str(each) for each in last)
        raise AssertionError(f"still so after {CEILING_S:g} s:\n{lines}") from None


async def _looked(holds: Callable[[], bool | Awaitable[bool]]) -> bool:
    """Whether it holds; where it does not, after a rest."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    held = await _value(holds())
    if not held:
        await asyncio.sleep(max(_LOOK_S, _REST * (loop.time() - began_s)))
    return held


async def _value(held: bool | Awaitable[bool]) -> bool:  # noqa: FBT001 - what was found, no flag
    return held if isinstance(held, bool) else await held


def eventually_in_a_thread(holds: Callable[[], bool]) -> None:
    """As `eventually`, where no loop runs; fails after `CEILING_S`."""
    gives_up_s = time.monotonic() + CEILING_S
    while not holds():
        assert time.monotonic() < gives_up_s, f"not so after {CEILING_S:g} s"
        time.sleep(_LOOK_S)
