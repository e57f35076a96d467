"""The events of holds and of capacity in the stream of `/v1/topology/events`.

These events have no id. The first that a listener gets states the version of the capacity from
which the others go on, so that it sees at once whether it has missed something; it learns of the
holds there are from `GET /v1/holds`.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from master.api.placements import hold_summary
from master.booking.feed import BookingFeed
from master.tree.capacity_counts import CountedForest, capacity_document, count_forest
from master.tree.topology_document import TopologyView
from topo.kit.threads import timed_in_thread
from topo.model.ids import NodeName
from topo.model.rest.changes import (
    CapacityEventDocument,
    HoldEventDocument,
    NodeCapacityDocument,
)
from topo.model.rest.topology import SharedCardsOfNode
from topo.placement.booking.events import HoldChange
from topo.placement.capacity.node_usage import NodeCounts

TICK_S = 0.25
"""Changes within this time are one event."""
REST_FACTOR = 4.0
"""Pause between two comparisons of all nodes, as a multiple of the time that the last one took. It
matters from 50,000 nodes on."""


def hold_event(change: HoldChange, now_s: float) -> bytes:
    """Return the event of a hold that was given, kept or that ended."""
    data = HoldEventDocument(
        event=change.what,
        hold=hold_summary(change.hold, now_s),
        elsewhere=dict(change.elsewhere),
    )
    return event("hold", data)


def event(name: str, data: Mapping[str, object], event_id: str = "") -> bytes:
    """Return the text of a server-sent event; one without an id moves no listener's place."""
    head = f"event: {name}\n" + (f"id: {event_id}\n" if event_id else "")
    return f"{head}data: ".encode() + orjson.dumps(data) + b"\n\n"


@dataclass(frozen=True, slots=True)
class _Baseline:
    """What the listeners know: the counts, and the capacity version of the last event."""

    view_version: object
    capacity_version: int
    counts: CountedForest
    shared: Mapping[NodeName, SharedCardsOfNode]


class CapacityEvents:
    """Compares the capacity with what it was, in a thread, while there are listeners."""

    def __init__(
        self, feed: BookingFeed, view: Callable[[], TopologyView], run_id: Callable[[], str]
    ) -> None:
        self._feed, self._view, self._run_id = feed, view, run_id
        self._known: _Baseline | None = None

    async def run(self) -> None:
        """Compare again and again until cancelled."""
        while True:
            took_s = await self._renew()
            await asyncio.sleep(max(TICK_S, REST_FACTOR * took_s))

    async def _renew(self) -> float:
        """Send what differs from the last time; return the seconds that the comparison took."""
        if not self._feed.listeners:
            self._known, self._feed.greeting = None, b""
            return 0.0
        view, known, run = self._view(), self._known, self._run_id()
        if known is not None and view.version == known.view_version:
            return 0.0
        (self._known, text), took_s = await timed_in_thread(partial(_compared, view, known, run))
        greeting = _capacity_event(view, run, self._known.capacity_version)
        self._feed.greeting = event("capacity", greeting)
        if text or known is None:
            self._feed.add(text or self._feed.greeting)
        return took_s


def _compared(view: TopologyView, known: _Baseline | None, run: str) -> tuple[_Baseline, bytes]:
    """Return what the listeners know then, and the event that tells them, empty for none."""
    counts, now = count_forest(view.snapshot.forest, view.usage), view.capacity_version
    shared = view.shared_cards()
    if known is None:
        return _Baseline(view.version, now, counts, shared), b""
    data = _capacity_event(view, run, known.capacity_version)
    data["groups"] = [
        {"path": path, "capacity": capacity_document(row)}
        for path, row in _differing(known.counts.groups, counts.groups)
    ]
    of_cards = dict(_differing(known.shared, shared))
    gone = known.shared.keys() - shared.keys()
    of_cards |= {name: SharedCardsOfNode() for name in gone}
    moved = [name for name, _ in _differing(known.counts.nodes, counts.nodes)]
    data["nodes"] = [
        _node(name, counts.nodes[name], of_cards.get(name))
        for name in dict.fromkeys((*moved, *sorted(of_cards)))
        if name in counts.nodes
    ]
    if not data["groups"] and not data["nodes"]:
        return _Baseline(view.version, known.capacity_version, counts, shared), b""
    data["capacity_version"] = now
    return _Baseline(view.version, now, counts, shared), event("capacity", data)


def _node(
    name: NodeName, gpus: NodeCounts, cards: SharedCardsOfNode | None
) -> NodeCapacityDocument:
    """Return what is told of a node; `cards` is None where nothing of its cards changed."""
    found: NodeCapacityDocument = {
        "name": name,
        "free_gpus": gpus.free,
        "used_gpus": gpus.used,
        "held_gpus": gpus.held,
        "cordoned": gpus.is_cordoned,
    }
    if cards is not None:
        found["shared"], found["cards"] = cards.get("shared", []), cards.get("cards", [])
    return found


def _capacity_event(view: TopologyView, run: str, version: int) -> CapacityEventDocument:
    """Return the event that states where a listener begins: nothing differs from that version."""
    return {
        "generation": view.snapshot.generation,
        "run": run,
        "since": version,
        "capacity_version": version,
        "groups": [],
        "nodes": [],
    }


def _differing(was: Mapping[Any, Any], now: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    return ((key, value) for key, value in now.items() if was.get(key) != value)
