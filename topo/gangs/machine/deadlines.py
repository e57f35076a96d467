"""When the machine comes back to a gang that nothing happens to: the earliest time of each."""

from collections.abc import Iterator
from heapq import heappop, heappush

from topo.gangs.machine.gang import GangId


class Deadlines:
    """A heap of times; one that an earlier time overtook stays in it and is harmless."""

    def __init__(self) -> None:
        self._due: list[tuple[float, GangId]] = []
        self._earliest: dict[GangId, float] = {}

    @property
    def next_s(self) -> float | None:
        """The earliest time of all; None: there is none."""
        return self._due[0][0] if self._due else None

    def put(self, gang_id: GangId, due_s: float, now_s: float) -> None:
        """Comes back to a gang then, or earlier where that was meant already; O(log gangs)."""
        meant_s = self._earliest.get(gang_id, now_s)
        if meant_s <= now_s or due_s < meant_s:
            self._earliest[gang_id] = due_s
            heappush(self._due, (due_s, gang_id))

    def take(self, now_s: float) -> Iterator[GangId]:
        """Takes out whose time has come; a gang may come more than once."""
        while self._due and self._due[0][0] <= now_s:
            due_s, gang_id = heappop(self._due)
            if self._earliest.get(gang_id) == due_s:
                del self._earliest[gang_id]
            yield gang_id
