"""The log of a master's bookings gone through again: was each plan the engine's best then?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.e2e.scheduling.recount import Wish
from topo.gangs.reservation import reservation
from topo.model.errors import Refusal
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.events import HoldAsked
from topo.placement.booking.log import Advanced, HostsChanged, LogHeader, entries_in
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, PlannedGroup
from topo.placement.job.request import PlacementMode, Request

_OF_GANGS = "gang/"
_KEPT = "kept for another job"


@dataclass(frozen=True, slots=True)
class Life:
    """A job, and when it was made and seen bound, on the clock of the log."""

    wish: Wish
    made_s: float
    bound_s: float

    def waits(self, now_s: float) -> bool:
        """Whether it was there, and not all of it was seen bound."""
        return self.made_s < now_s < self.bound_s


@dataclass(slots=True)
class Optima:
    """Plans of gangs by what the engine gives for the same request at the recorded moment.

    `kept`: what it gives without the nodes on which another job that waited would fit first.
    `other`: neither, while others waited; what was kept may have been told from an earlier moment.
    `beside`: of pods that had to go beside others of their gang.
    """

    equal: int = 0
    kept: int = 0
    other: int = 0
    beside: int = 0


def replayed(log: Path, lives: Sequence[Life]) -> Optima:
    """Judges each hold of a gang; raises `AssertionError` for a plan that was not the best."""
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
                    _step(capacity, bookings, entry, found, lives)
    return found


def _step(
    capacity: Capacity,
    bookings: Bookings,
    step: Advanced,
    found: Optima,
    lives: Sequence[Life],
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
        waiting = [life.wish for life in lives if life.waits(step.now_s)]
        assert len(waiting) > 1, f"the engine gives {best} for {asked}"
        if any(groups == asked.groups for groups in _beside(capacity, asked, waiting)):
            found.kept += 1
        else:
            found.other += 1
    bookings.advance(step.now_s, asked)


def _beside(
    capacity: Capacity, asked: HoldAsked, waiting: Sequence[Wish]
) -> Iterator[tuple[PlannedGroup, ...]]:
    """The best plans where nodes are kept for one of the jobs that wait."""
    for wish in waiting:
        first = reservation(capacity, _request(wish, asked.wish.request))
        capacity.book(_KEPT, {node: free for node in first if (free := capacity.free(node))})
        plan = place(capacity, asked.wish.request)
        capacity.release(_KEPT)
        if not isinstance(plan, NoFit):
            yield plan.groups


def _request(wish: Wish, like: Request) -> Request:
    """What a job asks for, that may use the same nodes as another one."""
    return replace(
        like,
        pods=wish.pods,
        gpus_per_pod=wish.gpus,
        group_size=wish.size,
        mode=PlacementMode.REQUIRED if wish.required else PlacementMode.PREFERRED,
    )
