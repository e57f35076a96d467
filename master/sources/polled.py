"""The fabric that a cluster manager describes, on its way from who asks to who reads dumps."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from topo.model.errors import Refusal
from topo.model.fabric import FabricDump


@dataclass(frozen=True, slots=True)
class FoundDump:
    """A dump by its name: when it was found to be so, and what it says, if that is news."""

    name: str
    found_at: int
    news: FabricDump | Refusal | None


@dataclass(slots=True)
class PolledFabric:
    """The last answer of a manager that is asked for its fabric.

    `name`: the host and path that the manager's source asks, empty where it asks for no fabric.
    `now` returns seconds since 1970.
    """

    now: Callable[[], float] = time.time
    name: str = ""
    _found_at: int = 0
    _last: FabricDump | Refusal | None = None
    _good: FabricDump | None = None
    _news: FabricDump | Refusal | None = None

    def take(self, found: FabricDump | Refusal) -> bool:
        """Take an answer, or why there is none; whether it is another than the last good one."""
        if found is not self._last:
            self._last = self._news = found
        if isinstance(found, Refusal):
            return False
        before, self._good = self._good, found
        self._found_at = int(self.now())
        return found is not before

    def dumps(self) -> Iterator[FoundDump]:
        """Yield the dump, once there is an answer; what is new is handed out once."""
        if self._last is not None:
            news, self._news = self._news, None
            yield FoundDump(self.name, self._found_at, news)
