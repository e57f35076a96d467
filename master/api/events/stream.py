"""The event stream `GET /v1/topology/events`."""

import asyncio
from collections.abc import Iterator
from typing import Protocol

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from master.api.events.booking_events import event
from master.api.events.step_events import StepEventCache, StepEvents
from master.api.requests.reading import Parameter, Query
from master.booking.feed import BookingFeed
from master.service import SERVICE
from master.tree.history import History
from topo.kit.serving.in_flight import InFlight
from topo.kit.serving.problem import problem
from topo.model.rest.generation_id import GenerationId

EVENT_PARAMETERS = (
    Parameter("since", "generation", "the last generation seen; Last-Event-ID says the same"),
)
HEARTBEAT_S = 2.0
"""A comment this often: who follows takes a silence of two of them for a master that hangs, and no
proxy closes the stream (they wait a minute)."""
STEP_EVENTS = web.AppKey("STEP_EVENTS", StepEventCache)
"""The rendered events that the listeners of one application share."""
_NOT_REMEMBERED = -1
_STREAM_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


class EventWriter(Protocol):
    """The client side of a stream."""

    async def write(self, text: bytes) -> None:
        """Send events; return when there is room for more. Raises `ConnectionError`."""


class _Stream:
    """A streamed answer: each text is taken by the client before the next is written."""

    def __init__(self, writer: AbstractStreamWriter, in_flight: InFlight) -> None:
        self._writer = writer
        self._in_flight = in_flight
        self._turn = asyncio.Lock()

    async def write(self, text: bytes) -> None:
        """Send whole events; raise `ConnectionError`."""
        async with self._turn:
            await self._in_flight.send(text, self._writer)


async def get_events(request: web.Request, query: Query) -> web.StreamResponse:
    """Stream server-sent events of changes after a generation, until the client or the master ends.

    Among them what happens to holds and to the capacity from now on.
    """
    service = request.app[SERVICE]
    streams = service.api_limits.streams
    if not streams.enter():
        refused = problem(
            503,
            f"{streams.limit} event streams are open already",
            fix="close one, or share one stream between your programs",
            headers={"Retry-After": "10"},
        )
        refused.force_close()  # who follows has no other use for the connection
        return refused
    response = web.StreamResponse(headers=_STREAM_HEADERS)
    try:
        await response.prepare(request)
        history = service.engine.history
        stream = _Stream(request.writer, service.api_limits.connections.in_flight)
        async with asyncio.TaskGroup() as both:
            beside = both.create_task(_follow_bookings(stream, service.placements.feed, history))
            start = _start(request, query, history.run_id)
            await follow(stream, history, start, request.app[STEP_EVENTS])
            beside.cancel()
    except* ConnectionError:
        pass  # the client went away, or took nothing: its own affair, and how streams end
    finally:
        streams.leave()
    return response


def _start(request: web.Request, query: Query, run: str) -> int | None:
    """Return the generation to start after; the header of a reconnecting browser beats its URL.

    An id of another run of the master is no place in this history, whatever its number, nor is one
    that was given by nobody here.
    """
    header = request.headers.get("Last-Event-ID", "").strip()
    named = GenerationId.read(header) if header else query.get("since")
    if named is None:
        return _NOT_REMEMBERED if header else None
    return named.number if named.is_of(run) else _NOT_REMEMBERED


async def follow(
    stream: EventWriter, history: History, start: int | None, texts: StepEventCache
) -> None:
    """Send what comes after `start` (None: after now) until the history closes.

    The cursor is all the state of a listener; `texts` are shared with the others. Raises
    `ConnectionError` when nobody listens.
    """
    cursor = int(history.now) if start is None else start
    await stream.write(f"retry: 2000\n: generation {history.now}\n\n".encode())
    while not history.closed:
        steps = history.since(cursor)
        if steps is None:
            cursor = int(history.now)
            await stream.write(_reset(history))
        elif steps:
            cursor = int(steps[-1].generation)
            await _send(stream, texts.of(steps, history.run_id))
        await history.wait_beyond(cursor, HEARTBEAT_S)
        if history.now == cursor and not history.closed:
            await stream.write(b": nothing new\n\n")


async def _follow_bookings(stream: EventWriter, feed: BookingFeed, history: History) -> None:
    """Send the events of holds and capacity from now on, until cancelled."""
    with feed.listening():
        cursor = feed.now
        if feed.greeting:
            await stream.write(feed.greeting)
        while True:
            texts, cursor = feed.since(cursor), feed.now
            for text in (_reset(history),) if texts is None else texts:
                await stream.write(text)
            await feed.wait_beyond(cursor)


def _reset(history: History) -> bytes:
    """Return the event that makes a listener fetch the present state."""
    now = int(history.now)
    return event("reset", {"generation": now}, f"{now}.{history.run_id}")


async def _send(stream: EventWriter, texts: Iterator[StepEvents]) -> None:
    """Send one text after the other, so that a long catch-up delays only its own client."""
    for text in texts:
        await stream.write(await text.made())
        # A write that finds room in the socket's buffer does not wait; and who else was woken by
        # these steps finds the text.
        await asyncio.sleep(0)
