"""Who carries which value: an index for values that mostly have one carrier.

The one carrier is kept bare and a set is made only where a second comes, because a set for each of
a million names would be most of the memory and half of the time.
"""

from collections.abc import Collection, Iterable, KeysView
from typing import Generic, TypeVar

CROWD = 8
"""A value with more carriers is a placeholder (boards without a serial number share one): it says
nothing about any of them, and looking at all of them at each change would cost O(nodes)."""

V = TypeVar("V")
C = TypeVar("C")


class Carriers(Generic[V, C]):
    """The carriers of each value. Mutable; every call is O(values), `discard` O(1)."""

    def __init__(self) -> None:
        self._any: dict[V, C] = {}
        self._several: dict[V, set[C]] = {}

    def __bool__(self) -> bool:
        """Whether there is any carrier."""
        return bool(self._any)

    @property
    def shared(self) -> KeysView[V]:
        """The values that several carry."""
        return self._several.keys()

    def add(self, values: Iterable[V], carrier: C) -> None:
        """Let `carrier` carry these values, too."""
        carried = self._any
        for value in values:
            other = carried.setdefault(value, carrier)
            if other != carrier:
                self._several.setdefault(value, {other}).add(carrier)

    def discard(self, values: Iterable[V], carrier: C) -> None:
        """Let `carrier` carry none of these values, which it carries, any more."""
        for value in values:
            several = self._several.get(value)
            if several is None:
                del self._any[value]
                continue
            several.discard(carrier)
            self._any[value] = next(iter(several))
            if len(several) == 1:
                del self._several[value]

    def sole(self, value: V) -> C | None:
        """The one carrier of a value; None where there is none or more than one."""
        return None if value in self._several else self._any.get(value)

    def all(self, value: V) -> Collection[C]:
        """Every carrier of a value, in no particular order."""
        several = self._several.get(value)
        if several is not None:
            return several
        return (self._any[value],) if value in self._any else ()

    def few(self, value: V) -> Collection[C]:
        """Every carrier of a value that means something; none of a placeholder's."""
        carriers = self.all(value)
        return carriers if len(carriers) <= CROWD else ()
