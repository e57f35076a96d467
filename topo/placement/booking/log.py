"""The booking log: all events and changes as JSON lines, which `replay` repeats.

The first line is a `LogHeader`: the format, the policy, the limits, and all hosts and bookings at
the start. Each line after it is a `HostsChanged` or an `Advanced`, in the order in which they
happened. An `Advanced` has the events and a text for each resulting change, which `replay`
compares. It names the first step whose result differs.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from topo.model.errors import BrokenInvariantError, Refusal
from topo.model.ids import NodeName
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.bookings_view import BookingsState
from topo.placement.booking.events import Absent, Change, Event, HoldAsked, HoldChange, PodChange
from topo.placement.booking.holds import HoldRefused, Limits
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host
from topo.placement.engine import place
from topo.placement.job.plan import Plan
from topo.placement.job.policy import Policy
from topo.placement.job.request import flaw

FORMAT: Final = 2
_KEPT = "replay: kept for another"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHeader:
    """The start of a log. `hosts` are in natural order of the tree."""

    policy: Policy
    limits: Limits
    hosts: tuple[Host, ...]
    bookings: BookingsState
    kind: Literal["topo-booking-log"] = "topo-booking-log"
    format: Literal[2] = FORMAT

    def start(self) -> tuple[Capacity, Bookings]:
        """Return a new capacity and bookings in this state."""
        capacity = Capacity(self.policy)
        for host in self.hosts:
            capacity.upsert(host)
        bookings = Bookings(capacity, self.limits)
        bookings.load_state(self.bookings)
        return capacity, bookings


@dataclass(frozen=True, slots=True)
class HostsChanged:
    """Hosts that were added or changed, and hosts that were removed."""

    changed: tuple[Host, ...]
    removed: tuple[NodeName, ...] = ()
    kind: Literal["hosts"] = "hosts"


@dataclass(frozen=True, slots=True)
class Advanced:
    """A call of `Bookings.advance`: its time, its events and the resulting changes."""

    now_s: Annotated[float, Field(allow_inf_nan=False)]
    events: tuple[Annotated[Event, Field(discriminator="kind")], ...]
    outcome: tuple[str, ...]
    kind: Literal["advanced"] = "advanced"

    @classmethod
    def of(cls, now_s: float, events: tuple[Event, ...], changes: tuple[Change, ...]) -> "Advanced":
        """Return a step, with its changes as texts."""
        return cls(now_s, events, tuple(map(text_of, changes)))


Entry = LogHeader | HostsChanged | Advanced
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])
_STATE = TypeAdapter(BookingsState)


def text_of(change: Change) -> str:
    """Return the text of a change in a log: `strayed hold-1 node-7:8`."""
    match change:
        case HoldChange(what, hold, elsewhere):
            return f"{what} {hold.id}" + "".join(f" {node}:{gpus}" for node, gpus in elsewhere)
        case Absent(hold_id, ended):
            return f"absent {hold_id}" + (f" {ended.how}" if ended is not None else "")
        case PodChange(pod, phase):
            return f"pod {pod.uid} {phase or 'gone'} {pod.node}"
        case HoldRefused(obstacle, refusal):
            return f"declined {obstacle}: {refusal.what}"


def line_of(entry: Entry) -> bytes:
    """Return an entry as a line of JSON."""
    return _ENTRY.dump_json(entry) + b"\n"


def state_json(state: BookingsState) -> bytes:
    """Return the bookings as JSON; equal states give equal bytes."""
    document = _STATE.dump_python(state, mode="json")
    for hold in document["holds"]:
        hold["wish"]["request"]["eligible"]["exclude"].sort()
    return json.dumps(document, separators=(",", ":")).encode()


def entries_in(lines: Iterator[bytes]) -> Iterator[tuple[int, Entry | Refusal]]:
    """Yield the entries with their line numbers, up to the first refusal.

    A last line without a line end is ignored: its writer was killed.
    """
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return
        entry = _read(line, number)
        yield number, entry
        if isinstance(entry, Refusal):
            return


def _read(line: bytes, number: int) -> Entry | Refusal:
    fix = f"give a file that topo-master wrote with --booking-log (format {FORMAT})"
    try:
        entry = _ENTRY.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part)[:64] for part in first["loc"])
        return Refusal(first["msg"], f"line {number} {where}".rstrip(), fix)
    if isinstance(entry, LogHeader) != (number == 1):
        what = "a log begins with its header" if number == 1 else "a second header"
        return Refusal(what, f"line {number}", fix)
    what = _inconsistency(entry)
    return Refusal(what, f"line {number}", fix) if what else entry


def _inconsistency(entry: Entry) -> str:
    """Return what is inconsistent in a well-formed entry; empty if nothing is."""
    if isinstance(entry, Advanced):
        asked = (event.wish.request for event in entry.events if isinstance(event, HoldAsked))
        return next((str(found) for found in map(flaw, asked) if found is not None), "")
    for host in entry.hosts if isinstance(entry, LogHeader) else entry.changed:
        columns = host.path, host.kinds, host.tiers, host.places or host.path
        if len(set(map(len, columns))) > 1:
            return f"node {host.name[:64]!r} has a path whose groups lack a kind, tier or place"
    return ""


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
