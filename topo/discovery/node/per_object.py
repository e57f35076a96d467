"""Values derived from objects that equal hosts share, computed once for each object.

Reports of equal hosts hold the same object where a section is equal, and a section of hundreds of
ports is dearer to hash than to look through. So the key is the identity, and the object is held,
lest its identity is given to another.

Cost: O(1) for an object seen lately. All is forgotten when `_MOST` objects are held: more makes and
states of hosts than a cluster has at a time.
"""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_MOST = 256


def once_per_object(derive: Callable[[T], R]) -> Callable[[T], R]:
    """Return the function, remembering its answers; for immutable arguments and answers."""
    known: dict[int, tuple[T, R]] = {}

    @wraps(derive)
    def derived(shared: T) -> R:
        entry = known.get(id(shared))
        if entry is None:
            if len(known) >= _MOST:
                known.clear()
            entry = known[id(shared)] = shared, derive(shared)
        return entry[1]

    return derived
