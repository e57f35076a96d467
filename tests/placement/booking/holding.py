"""What an owner of bookings does with holds, one step at a time, each followed by a validation."""

from topo.placement.booking.bookings import Bookings
from topo.placement.booking.events import (
    Absent,
    HoldAsked,
    HoldChange,
    HoldCommitted,
    HoldReleased,
    What,
)
from topo.placement.booking.holds import Ended, Hold, HoldId, HoldRefused, HoldRequest
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import Plan


def reserved(
    holds: Bookings, capacity: Capacity, asked: HoldRequest, *, name: str, now_s: float = 0.0
) -> Hold | HoldRefused:
    """The best placement now, asked to be held."""
    plan = place(capacity, asked.request)
    assert isinstance(plan, Plan), plan
    return reserved_as(holds, asked, plan, HoldId(name), now_s)


def reserved_as(
    holds: Bookings, asked: HoldRequest, plan: Plan, hold_id: HoldId, now_s: float
) -> Hold | HoldRefused:
    """The plan, asked to be held."""
    *_, change = holds.advance(now_s, HoldAsked.of(asked, plan, hold_id, 1))
    assert isinstance(change, HoldChange | HoldRefused)
    return change.hold if isinstance(change, HoldChange) else change


def committed(holds: Bookings, hold_id: HoldId, now_s: float) -> Hold | Ended | None:
    """The hold once it was committed, or how it had ended."""
    holds.advance(now_s, HoldCommitted(hold_id))
    return holds.find(hold_id)


def released(holds: Bookings, hold_id: HoldId, now_s: float) -> Hold | Ended | None:
    """The hold that was given back, or how it had ended before."""
    *_, change = holds.advance(now_s, HoldReleased(hold_id))
    assert isinstance(change, HoldChange | Absent)
    return change.hold if isinstance(change, HoldChange) else change.ended


def expired(holds: Bookings, now_s: float) -> tuple[Hold, ...]:
    """The holds whose time is over now."""
    changes = holds.advance(now_s)
    assert all(isinstance(c, HoldChange) and c.what is What.EXPIRED for c in changes)
    return tuple(change.hold for change in changes if isinstance(change, HoldChange))
