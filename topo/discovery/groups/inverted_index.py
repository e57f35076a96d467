"""From a value to the keys that carry it: an inverted index for values that mostly have one key.

Result: for each value the one key that carries it (`sole`), or all of them where there are several
(`several`). It answers "which node states this server UUID?" and "which machine has this name?".

Why two tables: the single key is kept bare and a set is made only when a second key comes. A set
for each of a million names would be most of the memory and half of the time.

Cost: O(values) for every call; memory O(pairs).

Example: after add(["x"], 1), add(["x", "y"], 2): sole = {y: 2}, several = {x: {1, 2}}.
After discard(["x"], 1): sole = {x: 2, y: 2}, several = {}.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

PLACEHOLDER_ABOVE = 8
"""A value with more keys is a placeholder (boards without a serial number share one): it says
nothing about any of them, and looking at all of them at each change would cost O(nodes)."""

V = TypeVar("V")
K = TypeVar("K")


class InvertedIndex(Generic[V, K]):
    """The keys of each value: `sole` where there is one, `several` where there are more.

    Both are for reading. Mutable.
    """

    sole: Mapping[V, K]
    several: Mapping[V, Collection[K]]

    def __init__(self) -> None:
        self.sole = self._sole = dict[V, K]()
        self.several = self._several = dict[V, set[K]]()

    def add(self, values: Iterable[V], key: K) -> None:
        """Note that `key` carries these values, too."""
        sole, several = self._sole, self._several
        for value in values:
            if value in several:
                several[value].add(key)
                continue
            other = sole.setdefault(value, key)
            if other != key:
                several[value] = {sole.pop(value), key}

    def discard(self, values: Iterable[V], key: K) -> None:
        """Note that `key` no longer carries these values, which it carried."""
        for value in values:
            several = self._several.get(value)
            if several is None:
                del self._sole[value]
                continue
            several.discard(key)
            if len(several) == 1:
                self._sole[value] = several.pop()
                del self._several[value]

    def keys_of(self, value: V) -> Collection[K]:
        """Return every key of a value, in no particular order."""
        if value in self._sole:
            return (self._sole[value],)
        return self._several.get(value, ())

    def keys_of_any(self, values: Collection[V]) -> set[K]:
        """Return every key that carries one of these values."""
        keys = {self._sole[value] for value in values if value in self._sole}
        if self._several:
            keys.update(*(self._several.get(value, ()) for value in values))
        return keys

    def few_keys_of(self, value: V) -> Collection[K]:
        """Return every key of a value that means something; none of a placeholder's."""
        keys = self.keys_of(value)
        return keys if len(keys) <= PLACEHOLDER_ABOVE else ()
