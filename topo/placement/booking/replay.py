"""Replays a booking log and names the first step whose result differs."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from topo.model.errors import BrokenInvariantError, Refusal
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.events import Change, Event, HoldAsked
from topo.placement.booking.log import Advanced, Entry, HostsChanged, LogHeader, entries_in, text_of
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import Plan

_KEPT = "replay: kept for another"


@dataclass(slots=True)
class Replay:
    """The result of a replay. `difference` is the first step that differs, empty if none does.

    `other_choices` are the holds for which the engine would choose other groups today (or none);
    they include holds whose groups the caller chose.
    """

    capacity: Capacity
    bookings: Bookings
    steps: int = 0
    difference: str = ""
    other_choices: list[str] = field(default_factory=list)


def replay(lines: Iterator[bytes]) -> Replay | Refusal:
    """Replay a log until its end or the first step that differs, validating after each step.

    A file that is not a booking log is refused, with the line. O(events and the placements among
    them).
    """
    done: Replay | None = None
    for number, entry in entries_in(lines):
        if isinstance(entry, Refusal):
            return entry
        if isinstance(entry, LogHeader):
            done = Replay(*entry.start())
        elif done is not None:
            _step(done, entry)
            if done.difference:
                done.difference = f"line {number}: {done.difference}"
                break
    return done or Refusal("the file has no whole line", "line 1", "give a log of bookings")


def _step(done: Replay, entry: Entry) -> None:
    done.steps += 1
    try:
        if isinstance(entry, HostsChanged):
            for host in entry.changed:
                done.capacity.upsert(host)
            for name in entry.removed:
                done.capacity.remove(name)
        elif isinstance(entry, Advanced):
            found = tuple(map(text_of, _advanced(done, entry)))
            if found != entry.outcome:
                done.difference = f"it was {_shown(entry.outcome)}, replayed it is {_shown(found)}"
                return
        done.bookings.validate()
    except BrokenInvariantError as error:
        done.difference = str(error)


def _advanced(done: Replay, entry: Advanced) -> Iterator[Change]:
    """Replay one step, and stop before each hold to compare the choice of groups."""
    events: list[Event] = []
    for event in entry.events:
        if isinstance(event, HoldAsked):
            yield from done.bookings.advance(entry.now_s, *events)
            events.clear()
            _compare(done, event)
        events.append(event)
    yield from done.bookings.advance(entry.now_s, *events)


def _compare(done: Replay, asked: HoldAsked) -> None:
    if done.bookings.find_by_key(asked.wish) or done.bookings.refuse_impossible(asked.wish):
        return  # answered without looking at groups
    kept = done.capacity.free_on(asked.without)
    best = place(done.capacity.with_changes(taken={_KEPT: kept}), asked.wish.request)
    if not isinstance(best, Plan):
        done.other_choices.append(f"{asked.id}: no placement today, {best.text}")
    elif [group.pods for group in best.groups] != [group.pods for group in asked.groups]:
        nodes = [node for group in best.groups for node, _ in group.pods]
        done.other_choices.append(f"{asked.id}: today from {nodes[0]} to {nodes[-1]}")


def _shown(outcome: tuple[str, ...]) -> str:
    return "; ".join(outcome) or "nothing"
