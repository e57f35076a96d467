"""The log of a master's bookings gone through again: was each plan of a gang the best one then?"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.placement.oracle.judge import Tally, judged
from topo.model.errors import Refusal
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.events import HoldAsked
from topo.placement.booking.log import Advanced, Entry, HostsChanged, LogHeader, entries_in
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.engine import place
from topo.placement.job.plan import Plan

_OF_GANGS = "gang/"
_KEPT = "kept for another job"
_ORACLE_NODES = 128
"""In a larger cluster the oracle needs minutes for a plan."""
_FIRST = ("mode", "split_groups", "top_groups")
"""What no plan may miss: whole groups, and the fewest groups of the highest tier."""


@dataclass(slots=True)
class Optima:
    """Plans of gangs beside what the engine gives for the same question at the recorded moment.

    `alone` and `behind` are the engine's: with all that was free, and without what was kept for
    another job. `beside`: of pods that had to go beside others of their gang, which is another
    question. `oracle`: how many of the first two are the best by CP-SAT, which shares no line with
    the engine; of none in a large cluster.
    """

    alone: int = 0
    behind: int = 0
    beside: int = 0
    oracle: Tally = field(default_factory=lambda: Tally("by CP-SAT"))


def replayed(log: Path) -> Optima:
    """Judges each hold of a gang; raises `AssertionError` for a plan that was not the best."""
    found = Optima()
    capacity, bookings = Capacity(), Bookings(Capacity())
    for entry in _entries(log):
        match entry:
            case LogHeader():
                capacity, bookings = entry.start()
            case HostsChanged(changed, removed):
                for host in changed:
                    capacity.upsert(host)
                for name in removed:
                    capacity.remove(name)
            case Advanced():
                _step(capacity, bookings, entry, found)
    assert not found.oracle.worse(_FIRST), found
    return found


def _entries(log: Path) -> Iterator[Entry]:
    """Of the file and of the one before it, which are whole each."""
    for path in (log.with_name(f"{log.name}.1"), log):
        if not path.exists():
            continue
        with path.open("rb") as lines:
            for _, entry in entries_in(lines):
                assert not isinstance(entry, Refusal), entry
                yield entry


def _step(capacity: Capacity, bookings: Bookings, step: Advanced, found: Optima) -> None:
    asked = step.events[-1] if step.events else None
    if not isinstance(asked, HoldAsked) or not (asked.wish.key or "").startswith(_OF_GANGS):
        bookings.advance(step.now_s, *step.events)
        return
    bookings.advance(step.now_s, *step.events[:-1])
    if all(group.domains for group in asked.groups):
        kept = capacity.free_on(asked.without)
        _judge(capacity.with_changes(taken={_KEPT: kept}), asked, found)
    else:
        found.beside += 1
    bookings.advance(step.now_s, asked)


def _judge(capacity: CapacityView, asked: HoldAsked, found: Optima) -> None:
    request = asked.wish.request
    best = place(capacity, request)
    assert isinstance(best, Plan), f"the engine refuses {asked}: {best.text}"
    assert best.groups == asked.groups, f"the engine gives {best.groups} for {asked}"
    if asked.without:
        found.behind += 1
    else:
        found.alone += 1
    if len(list(capacity.hosts())) <= _ORACLE_NODES:
        found.oracle.add(judged(capacity, request))
