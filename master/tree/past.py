"""Past moments of the forest: kept on the loop, made and rebuilt in threads.

A moment is kept when the forest is another one, a second after the one before at the earliest, so
that a cable which flaps faster costs no more. Nothing is kept before the tree is shown: a master
that starts has lost no nodes. What is free, booked or said by sources is not kept.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import prometheus_client as prom
import structlog
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from master.tree.engine import Engine
from topo.discovery.tree.changes import compare
from topo.history.ring import Moment, Piece, Ring, counted, piece, rebuild
from topo.history.rows import BrokenEditError
from topo.kit.metrics import counter_family, gauge_family
from topo.kit.threads import off_loop
from topo.model.errors import Refusal
from topo.model.forest import Forest, Snapshot
from topo.model.rest.moment_id import MomentId, time_text

GAP_S = 1.0
AHEAD_S = 60.0
"""Clocks of two machines differ; a time that is further ahead of ours is a mistake."""

_log = structlog.get_logger(__name__)


class PastStore(Protocol):
    """The store in which moments survive a restart. Its calls block."""

    def load(self) -> Sequence[Piece]:
        """Return what is kept, the first piece whole. A broken file is put aside."""
        ...

    def append(self, new: Piece, kept: Callable[[], Sequence[Piece]]) -> None:
        """Append a piece; `kept` returns all that are still wanted. Raises `OSError`."""
        ...


@dataclass(frozen=True, slots=True)
class PastForest:
    """The forest at a moment: as it is shown now, or as it is rebuilt of pieces."""

    moment: Moment
    shown: Forest | None = None
    pieces: tuple[Piece, ...] = ()

    def forest(self) -> Forest:
        """Return the forest. O(nodes) for one that is rebuilt: call it in a thread."""
        return rebuild(self.pieces) if self.shown is None else self.shown


class Past:
    """The owner of the kept moments. `clock` is Unix time, `is_shown` says if the tree is."""

    def __init__(
        self,
        engine: Engine,
        ring: Ring,
        *,
        is_shown: Callable[[], bool],
        store: PastStore | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self.ring = ring
        self._is_shown = is_shown
        self._store = store
        self.clock = clock
        self._published = asyncio.Event()
        self._published_s = 0.0
        self._newest: Forest | None = None
        self._failing = False
        self.failures = 0
        engine.on_published.append(self._note)

    def _note(self, _snapshot: Snapshot) -> None:
        self._published_s = round(self.clock(), 3)  # as it is told: who asks by it gets this one
        self._published.set()

    async def run(self) -> None:
        """Keep each forest that is shown, until cancelled."""
        await self._restore()
        while True:
            await self._published.wait()
            if self._is_shown():
                self._published.clear()
                await self._keep()
            await asyncio.sleep(GAP_S)

    async def _restore(self) -> None:
        """Load what an earlier process kept."""
        if self._store is None:
            return
        pieces = await off_loop(self._store.load)
        now_s = self.clock()
        for each in pieces:
            self.ring.add(each if each.moment.at_s <= now_s else _as_of(each, now_s))
        if len(self.ring):
            last = self.ring.pieces_for(len(self.ring) - 1)
            try:
                self._newest = await asyncio.to_thread(rebuild, last)
            except BrokenEditError as error:
                _log.warning("the kept history cannot be rebuilt; it begins anew", why=str(error))
                self.ring.clear()
            else:
                _log.info("history restored", moments=len(self.ring))

    async def _keep(self) -> None:
        snapshot, at_s = self._engine.snapshot, self._published_s
        moment = Moment(snapshot.generation, self._engine.history.run_id, at_s, {})
        make = partial(
            _made, moment, self._newest, snapshot.forest, wants_whole=self.ring.wants_whole
        )
        try:
            made = await asyncio.to_thread(make)
        except (TypeError, ValueError) as error:  # a text that no encoding has
            self._failed(str(error))
            return
        if made is None:
            return
        self._newest = snapshot.forest
        self.ring.add(made)
        if self._store is not None:
            try:
                await off_loop(partial(self._store.append, made, lambda: self.ring.pieces))
            except OSError as error:
                self._failed(error.strerror or str(error))
                return
        self._failing = False

    def _failed(self, why: str) -> None:
        if not self._failing:
            _log.error("history not written", why=why)
        self._failing = True
        self.failures += 1

    def find(self, wanted: MomentId, field: str) -> PastForest | Refusal:
        """Return the forest of a moment, or the refusal where it is not kept."""
        if wanted.is_now:
            snapshot, run = self._engine.snapshot, self._engine.history.run_id
            return PastForest(
                Moment(snapshot.generation, run, self.clock(), {}), shown=snapshot.forest
            )
        at_s = wanted.at_s(self.clock())
        place = None
        if at_s is not None:
            place = self.ring.at(at_s)
        elif wanted.generation is not None:
            place = self.ring.of(wanted.generation)
        if place is not None:
            return PastForest(self.ring.moment(place), pieces=self.ring.pieces_for(place))
        now = f"{self._engine.history.now}.{self._engine.history.run_id}"
        if (oldest := self.ring.oldest) is None:
            fix = f"the generation now is {now}; moments are kept once the tree is shown"
            return Refusal("no moment is kept yet", field, fix)
        since = f"{time_text(oldest.at_s)}, generation {oldest.generation}.{oldest.run}"
        fix = f"the oldest that is kept is {since}, and now is {now}"
        if reached := [f"--history-{limit}" for limit, count in self.ring.dropped.items() if count]:
            fix += f"; raise {' and '.join(reached)} to keep more"
        return Refusal("what was then is not kept", field, fix)

    def is_ahead(self, wanted: MomentId) -> bool:
        """Return whether a time is in the future."""
        at_s = wanted.at_s(now_s := self.clock())
        return at_s is not None and at_s > now_s + AHEAD_S


def between(one: PastForest, other: PastForest) -> tuple[Forest, Forest]:
    """Return both forests; within a segment the second is made of the first. O(nodes)."""
    first = one.forest()
    size = len(one.pieces)
    if size and other.pieces[:size] == one.pieces:
        return first, rebuild(other.pieces[size:], first)
    return first, other.forest()


def _made(moment: Moment, old: Forest | None, new: Forest, *, wants_whole: bool) -> Piece | None:
    """Return the next piece, None where the forest is the same. O(differences), else O(nodes)."""
    if old == new:
        return None
    changes = () if old is None else compare(old, new, moment.generation)
    told = replace(moment, changes=counted(changes))
    return piece(told, None if wants_whole else old, new)


def _as_of(each: Piece, now_s: float) -> Piece:
    return replace(each, moment=replace(each.moment, at_s=now_s))


@dataclass(frozen=True, slots=True, eq=False)
class PastCollector(Collector):
    """The metrics of what is kept, and how far back."""

    past: Past

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families, at scrape time."""
        ring, oldest = self.past.ring, self.past.ring.oldest
        yield gauge_family("topo_master_history_bytes", ring.held_bytes)
        yield gauge_family("topo_master_history_moments", len(ring))
        oldest_s = 0.0 if oldest is None else oldest.at_s
        yield gauge_family("topo_master_history_oldest_timestamp_seconds", oldest_s)
        yield counter_family("topo_master_history_dropped_moments", ring.dropped)
        yield counter_family("topo_master_history_failures", self.past.failures)


def build_past(
    engine: Engine,
    bounds: tuple[int, float],
    registry: prom.CollectorRegistry,
    *,
    is_shown: Callable[[], bool],
    store: PastStore | None,
) -> Past:
    """Return the owner of what is kept within (bytes, seconds), with its metrics registered."""
    past = Past(engine, Ring(*bounds), is_shown=is_shown, store=store)
    registry.register(PastCollector(past))
    return past
