"""What would let a refused job in: looked for aside, once for all who ask for the same."""

import asyncio
from collections.abc import Sequence

from topo.placement.capacity import Capacity
from topo.placement.plan import NoFit
from topo.placement.refuse import Suggestion, would_fit
from topo.placement.request import Request

AT_ONCE = 16
"""Refused jobs that may wait for advice, each with a copy of the capacity (a megabyte)."""
KEPT = 64
_Case = tuple[int, Request]
"""A version of the capacity, and what was asked of it."""


class Adviser:
    """Looks for changes in a thread, one job at a time, and remembers what it found.

    Advice is good for as long as the capacity is what it was: those who wait for room ask for the
    same again and again. When too many ask at once, the later ones go without.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._known: dict[_Case, tuple[Suggestion, ...]] = {}
        self._waiting = 0
        self._turn = asyncio.Lock()

    async def advice(self, refused: NoFit) -> Sequence[Suggestion]:
        """The changes under which the job would fit the capacity that has just refused it."""
        key = (self._capacity.version, refused.request)
        if key in self._known or self._waiting >= AT_ONCE:
            return self._known.get(key, ())
        copy = self._capacity.copy()  # before anything else can happen
        self._waiting += 1
        try:
            async with self._turn:
                if key not in self._known:
                    self._known[key] = await asyncio.to_thread(would_fit, copy, refused)
        finally:
            self._waiting -= 1
        found = self._known[key]
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return found
