"""Whether a stored hold can be booked, tried on bookings of its own before it joins all others."""

from topo.model.isolation import ObjectError, attempt
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.holds import FORMAT, ClockReading, Hold, HoldsMemory, Limits
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.policy import Policy

_START = ClockReading("trial", 0.0, 0.0)


def booking_flaw(hold: Hold) -> str:
    """Return the error that booking a hold by itself raises, empty for none. O(its nodes).

    Among the others the same error would end the process, at each start anew.
    """

    def book() -> None:
        bookings = Bookings(Capacity(Policy()), Limits())
        bookings.restore(HoldsMemory(FORMAT, (hold,), None), _START)
        bookings.validate()

    found = attempt(book)
    return found.reason if isinstance(found, ObjectError) else ""
