"""A matching of seekers with seats: each seeker gets one of the seats that it may take.

Result: the seat of each seeker, or None if they cannot all have one.

Why it is right: one seeker after the other gets a seat along a path that frees one by moving those
before it, as long as there is such a path (Kuhn 1955); without one there is no matching of all.
A seeker takes its first free seat, so that the order of its seats is a preference.

Cost: O(seekers x pairs of a seeker and a seat) at worst; O(pairs) where first seats are free.

Example: seeker 0 may take a or b, seeker 1 only a. 0 takes a; for 1 it moves to b.
"""

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Seat = TypeVar("Seat", bound=Hashable)


def matched(able: Sequence[Sequence[Seat]]) -> list[Seat] | None:
    """Return a seat for each seeker; `able` are the seats that each may take, the best first."""
    taken: dict[Seat, int] = {}
    has: dict[int, Seat] = {}
    for seeker in range(len(able)):
        came_by: dict[Seat, int] = {}
        seat = _free_seat(seeker, able, taken, came_by)
        while seat is not None:
            who = came_by[seat]
            taken[seat] = who
            # Who moves leaves the seat by which it was reached.
            left = has.get(who)
            has[who] = seat
            seat = left
        if seeker not in has:
            return None
    return [has[seeker] for seeker in range(len(able))]


def _free_seat(
    seeker: int,
    able: Sequence[Sequence[Seat]],
    taken: Mapping[Seat, int],
    came_by: dict[Seat, int],
) -> Seat | None:
    """Return the free seat with the fewest moves to it; `came_by`: by whom each was reached."""
    left = deque([seeker])
    while left:
        at = left.popleft()
        for seat in able[at]:
            if seat in came_by:
                continue
            came_by[seat] = at
            if seat not in taken:
                return seat
            left.append(taken[seat])
    return None
