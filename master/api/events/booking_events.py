"""What the event stream says of holds and of capacity, beside the changes of the forest.

These events have no id. Whoever begins to listen is told the version of the capacity from which
the events go on, so that it sees at once whether it has missed something; of the holds it learns
from `GET /v1/holds`.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from master.api.placement_documents import hold_summary
from master.booking.feed import BookingFeed
from master.tree.capacity_counts import CountedForest, capacity_document, counted
from master.tree.topology_document import TopologyView
from topo.kit.threads import timed_in_thread
from topo.placement.booking.events import HoldChange

TICK_S = 0.25
"""What changes within this is told at once."""
REST_FACTOR = 4.0
"""Comparing all nodes rests for so many times what it took, which matters from 50,000 nodes on."""


def hold_event(change: HoldChange, now_s: float) -> bytes:
    """The event of a hold that was given, kept or that ended."""
    hold = hold_summary(change.hold, now_s)
    return event("hold", {"event": change.what, "hold": hold, "elsewhere": dict(change.elsewhere)})


def event(name: str, data: Mapping[str, Any], event_id: str = "") -> bytes:
    """The text of a server-sent event; without an id it moves no listener's place."""
    head = f"event: {name}\n" + (f"id: {event_id}\n" if event_id else "")
    return f"{head}data: ".encode() + orjson.dumps(data) + b"\n\n"


@dataclass(frozen=True, slots=True)
class _Told:
    """What listeners know: the counts, and the version of the capacity that they were told last."""

    of: object
    capacity_version: int
    counts: CountedForest


class CapacityEvents:
    """Compares the capacity with what it was, in a thread, while somebody listens."""

    def __init__(
        self, feed: BookingFeed, view: Callable[[], TopologyView], run_id: Callable[[], str]
    ) -> None:
        self._feed, self._view, self._run_id = feed, view, run_id
        self._told: _Told | None = None

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            took_s = await self._renew()
            await asyncio.sleep(max(TICK_S, REST_FACTOR * took_s))

    async def _renew(self) -> float:
        """Tells what differs from the last time; the seconds that the comparing took."""
        if not self._feed.listeners:
            self._told, self._feed.greeting = None, b""
            return 0.0
        view = self._view()
        if self._told is not None and view.version == self._told.of:
            return 0.0
        is_first, run = self._told is None, self._run_id()
        compared = partial(_compared, view, self._told, run)
        (told, text), took_s = await timed_in_thread(compared)
        self._told, self._feed.greeting = told, _from(view, told.capacity_version, run)
        if text or is_first:
            self._feed.add(text or self._feed.greeting)
        return took_s


def _compared(view: TopologyView, told: _Told | None, run: str) -> tuple[_Told, bytes]:
    """What listeners know then, and the event that tells them, empty for none."""
    counts, now = counted(view.snapshot.forest, view.usage), view.usage.version
    if told is None:
        return _Told(view.version, now, counts), b""
    changes = _changes(told.counts, counts)
    if not changes["groups"] and not changes["nodes"]:
        return _Told(view.version, told.capacity_version, counts), b""
    text = _capacity_event(view, run, (told.capacity_version, now), changes)
    return _Told(view.version, now, counts), text


def _from(view: TopologyView, version: int, run: str) -> bytes:
    """The event that tells where a listener begins: nothing differs from that version yet."""
    return _capacity_event(view, run, (version, version), {"groups": [], "nodes": []})


def _capacity_event(
    view: TopologyView, run: str, between: tuple[int, int], changes: Mapping[str, Any]
) -> bytes:
    since, version = between
    generation = view.snapshot.generation
    data = {"generation": generation, "run": run, "since": since, "capacity_version": version}
    return event("capacity", {**data, **changes})


def _changes(was: CountedForest, now: CountedForest) -> dict[str, list[dict[str, Any]]]:
    groups = [
        {"path": path, "capacity": capacity_document(row)}
        for path, row in _moved(was.groups, now.groups)
    ]
    nodes = [
        {
            "name": name,
            "free_gpus": counts.free,
            "used_gpus": counts.used,
            "held_gpus": counts.held,
            "cordoned": counts.is_cordoned,
        }
        for name, counts in _moved(was.nodes, now.nodes)
    ]
    return {"groups": groups, "nodes": nodes}


def _moved(was: Mapping[Any, Any], now: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    return ((key, value) for key, value in now.items() if was.get(key) != value)
