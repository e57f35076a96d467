"""When a gang has to be settled again without an event, and the earliest of all gangs."""

from collections.abc import Iterator
from heapq import heappop, heappush

from topo.gangs.machine.gang import GangId
from topo.gangs.machine.placement_requests import preempts_s
from topo.gangs.machine.record import Record
from topo.gangs.machine.settings import GangSettings
from topo.gangs.machine.unbound_pods import next_looks_s


class Deadlines:
    """A heap of times. A time that an earlier one replaced stays in the heap and does no harm."""

    def __init__(self) -> None:
        self._due: list[tuple[float, GangId]] = []
        self._earliest: dict[GangId, float] = {}

    @property
    def next_s(self) -> float | None:
        """The earliest time of all; None if there is none."""
        return self._due[0][0] if self._due else None

    def put(self, gang_id: GangId, due_s: float, now_s: float) -> None:
        """Set the time of a gang, unless an earlier one is set; O(log gangs)."""
        known_s = self._earliest.get(gang_id, now_s)
        if known_s <= now_s or due_s < known_s:
            self._earliest[gang_id] = due_s
            heappush(self._due, (due_s, gang_id))

    def take(self, now_s: float) -> Iterator[GangId]:
        """Yield and remove the gangs whose time has come; a gang may come more than once."""
        while self._due and self._due[0][0] <= now_s:
            due_s, gang_id = heappop(self._due)
            if self._earliest.get(gang_id) == due_s:
                del self._earliest[gang_id]
            yield gang_id


def due_times(record: Record, settings: GangSettings) -> Iterator[float]:
    """Yield the times at which something changes for a gang without an event; O(pending writes).

    A write or an answer is late, its wait for whole groups ends, it may be planned over others, or
    its scheduler has refused a node for too long.
    """
    yield from (given.until_s for given in record.given.values())
    if record.asked is not None:
        yield record.asked.until_s
    gang = record.gang
    if gang.wait_s is not None:
        yield gang.created_s + gang.wait_s
    if (over_s := preempts_s(record, settings)) is not None:
        yield over_s
    yield from next_looks_s(record, settings)
