"""Waiting in the bounded queues of placement, and the 503 where one is full."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from master.booking.executors import QueueFullError
from master.service import SERVICE

RETRY_S = 1


async def wait_for_loop(request: web.Request) -> None:
    """Returns when the caller may work on the event loop; 503 when too many wait for that."""
    with refusing_when_full():
        await request.app[SERVICE].placements.planner.loop_queue.acquire()


@contextmanager
def refusing_when_full() -> Iterator[None]:
    """503 with `Retry-After` in the place of `QueueFullError`."""
    try:
        yield
    except QueueFullError:
        text = "too many calls of this kind wait already"
        headers = {"Retry-After": str(RETRY_S)}
        raise web.HTTPServiceUnavailable(text=text, headers=headers) from None
