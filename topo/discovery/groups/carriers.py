"""Who carries which value: an index for values that mostly have one carrier.

The one carrier is kept bare and a set is made only where a second comes, because a set for each of
a million names would be most of the memory and half of the time.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

CROWD = 8
"""A value with more carriers is a placeholder (boards without a serial number share one): it says
nothing about any of them, and looking at all of them at each change would cost O(nodes)."""

V = TypeVar("V")
C = TypeVar("C")


class Carriers(Generic[V, C]):
    """The carriers of each value: `sole` where there is one, `several` where there are more.

    Both are for reading. Mutable; every call is O(values).
    """

    sole: Mapping[V, C]
    several: Mapping[V, Collection[C]]

    def __init__(self) -> None:
        self.sole = self._sole = dict[V, C]()
        self.several = self._several = dict[V, set[C]]()

    def __bool__(self) -> bool:
        """Whether there is any carrier."""
        return bool(self._sole or self._several)

    def add(self, values: Iterable[V], carrier: C) -> None:
        """Let `carrier` carry these values, too."""
        sole, several = self._sole, self._several
        for value in values:
            if value in several:
                several[value].add(carrier)
                continue
            other = sole.setdefault(value, carrier)
            if other != carrier:
                several[value] = {sole.pop(value), carrier}

    def discard(self, values: Iterable[V], carrier: C) -> None:
        """Let `carrier` carry none of these values, which it carries, any more."""
        for value in values:
            several = self._several.get(value)
            if several is None:
                del self._sole[value]
                continue
            several.discard(carrier)
            if len(several) == 1:
                self._sole[value] = several.pop()
                del self._several[value]

    def all(self, value: V) -> Collection[C]:
        """Every carrier of a value, in no particular order."""
        if value in self._sole:
            return (self._sole[value],)
        return self._several.get(value, ())

    def of(self, values: Collection[V]) -> set[C]:
        """Everybody who carries one of these values."""
        carriers = {self._sole[value] for value in values if value in self._sole}
        if self._several:
            carriers.update(*(self._several.get(value, ()) for value in values))
        return carriers

    def few(self, value: V) -> Collection[C]:
        """Every carrier of a value that means something; none of a placeholder's."""
        carriers = self.all(value)
        return carriers if len(carriers) <= CROWD else ()
