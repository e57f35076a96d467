"""When too many ask at once, the later ones are told to come back."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from master.booking.executors import QueueFullError
from master.service import SERVICE

RETRY_S = 1


async def turn(request: web.Request) -> None:
    """Returns when it is the caller's turn to work on the loop; 503 when too many wait for it."""
    with bounded():
        await request.app[SERVICE].placements.planner.loop_queue.acquire()


@contextmanager
def bounded() -> Iterator[None]:
    """503 with `Retry-After` in the place of `QueueFullError`."""
    try:
        yield
    except QueueFullError:
        text = "too many calls of this kind wait already"
        headers = {"Retry-After": str(RETRY_S)}
        raise web.HTTPServiceUnavailable(text=text, headers=headers) from None
