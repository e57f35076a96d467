"""The log of a master's bookings gone through again: was each plan the engine's best then?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from topo.model.errors import Refusal
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.events import HoldAsked
from topo.placement.booking.log import Advanced, HostsChanged, LogHeader, entries_in
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import NoFit

_OF_GANGS = "gang/"


@dataclass(slots=True)
class Optima:
    """Plans of gangs by what the engine gives for the same request at the recorded moment.

    `kept`: another one, while others waited for whom room is kept. `beside`: of pods that had to
    go beside others of their gang.
    """

    equal: int = 0
    kept: int = 0
    beside: int = 0


def replayed(log: Path, times: Mapping[str, Sequence[float]]) -> Optima:
    """Judges each hold of a gang; raises `AssertionError` for a plan that was not the best.

    `times`: when each job came and when it was seen bound, on the clock of the log.
    """
    found = Optima()
    capacity, bookings = Capacity(), Bookings(Capacity())
    with log.open("rb") as lines:
        for _, entry in entries_in(lines):
            assert not isinstance(entry, Refusal), entry
            match entry:
                case LogHeader():
                    capacity, bookings = entry.start()
                case HostsChanged(changed, removed):
                    for host in changed:
                        capacity.upsert(host)
                    for name in removed:
                        capacity.remove(name)
                case Advanced():
                    _step(capacity, bookings, entry, found, times)
    return found


def _step(
    capacity: Capacity,
    bookings: Bookings,
    step: Advanced,
    found: Optima,
    times: Mapping[str, Sequence[float]],
) -> None:
    asked = step.events[-1] if step.events else None
    if not isinstance(asked, HoldAsked) or not (asked.wish.key or "").startswith(_OF_GANGS):
        bookings.advance(step.now_s, *step.events)
        return
    bookings.advance(step.now_s, *step.events[:-1])
    best = place(capacity, asked.wish.request)
    if not all(group.domains for group in asked.groups):
        found.beside += 1
    elif not isinstance(best, NoFit) and best.groups == asked.groups:
        found.equal += 1
    else:
        waiting = [name for name, (came, *seen) in times.items() if came < step.now_s]
        others = [n for n in waiting if not times[n][1:] or times[n][1] > step.now_s]
        assert len(others) > 1, f"the engine gives {best} for {asked}"
        found.kept += 1
    bookings.advance(step.now_s, asked)
