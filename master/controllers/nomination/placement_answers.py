"""Answers what gangs ask of placement: nodes and a hold for them, and whether a plan still stands.

On the event loop, without waiting: between looking and booking nobody else takes what was found.
"""

import secrets
from collections.abc import Callable, Sequence

from master.booking.state import BookingState
from topo.gangs.decisions.check import apart_groups, lost_nodes, settled_groups, split_groups
from topo.gangs.decisions.eviction import Evictable, units_of
from topo.gangs.decisions.place import Placed, answered
from topo.gangs.machine.events import Checked, Planned, Refused
from topo.gangs.machine.gang import GangId
from topo.gangs.machine.instructions import Check, Place
from topo.model.ids import Kind
from topo.placement.booking.events import HoldAsked, HoldChange, HoldReleased, Pod, PodGone
from topo.placement.booking.holds import Hold, HoldId, HoldRefused, HoldRequest
from topo.placement.job.words import counted, listed

_PREFIX = "gang/"
"""Keys of the holds of gangs begin with it; the gang's id follows."""
HOLD_S = 3600.0
"""Nominated pods have their GPUs without the hold, so it need not outlast a long queue."""


class PlacementAnswers:
    """Places gangs on the capacity of one master. `max_hold_s`: the longest that a hold may be.

    `evictable`: the pods that a gang's scheduler may evict for it, of less than a priority.
    """

    def __init__(
        self,
        state: BookingState,
        max_hold_s: float,
        evictable: Callable[[GangId, int], Sequence[Evictable]],
    ) -> None:
        self._state, self._evictable = state, evictable
        self._hold_s = min(HOLD_S, max_hold_s)

    def kind_of_tier(self, tier: int) -> Kind | None:
        """The kind of the groups that Volcano's tier of this number has."""
        kinds = self._state.capacity.kinds()
        return next((Kind(kind) for kind, at in kinds.items() if at == tier), None)

    def holds(self) -> dict[GangId, tuple[HoldId, ...]]:
        """The holds that were made for gangs, by gang; O(holds)."""
        found: dict[GangId, tuple[HoldId, ...]] = {}
        for hold in self._state.holds():
            if (gang := gang_of_hold(hold)) is not None:
                found[gang] = (*found.get(gang, ()), hold.id)
        return found

    def place(self, asked: Place) -> Planned | Refused:
        """Nodes for the wanted pods, held; or why there are none."""
        capacity = self._state.capacity
        before = self._state.bookings.pods(pod.uid for pod in asked.wanted)
        owners = [*(pod.owner for pod in before), *asked.replaced]
        found = answered(capacity, asked, owners, lambda: self._may_go(asked))
        if isinstance(found, Refused):
            return found
        held = self._held(asked, found, before) if not found.evicted else self._named(asked)
        if isinstance(held, HoldRefused):
            text = f"{held.refusal.what}; {held.refusal.fix}"
            return Refused(id=asked.id, ask=asked.ask, text=text, shortfall={})
        return Planned(
            id=asked.id,
            ask=asked.ask,
            nodes=found.nodes,
            hold=held,
            mode=found.mode,
            generation=self._state.generation,
            certified=found.certified,
            evicts=_in_words(found.evicted),
        )

    def check(self, asked: Check, blocked: str) -> Checked:
        """Which planned nodes cannot take their pods now; `blocked`: why the queue cannot."""
        capacity = self._state.capacity
        own = self._state.bookings.pods(pod.uid for pod, _ in asked.waiting)
        owners = [*(pod.owner for pod in own), *asked.holds]
        owners += (pod.owner for pod in self._may_go(asked))
        return Checked(
            id=asked.id,
            ask=asked.ask,
            lost=lost_nodes(capacity, asked, owners),
            blocked=blocked,
            split=split_groups(capacity, asked),
            apart=apart_groups(capacity, asked),
            settled=settled_groups(capacity, asked),
        )

    def release(self, hold: HoldId) -> None:
        """Gives a hold back; one that has ended is no matter."""
        self._state.advance(HoldReleased(hold))

    def _may_go(self, asked: Place | Check) -> Sequence[Evictable]:
        return self._evictable(asked.id, asked.over) if asked.over is not None else ()

    def _named(self, asked: Place) -> HoldId:
        """The name of a plan that books nothing; what was held before is given back."""
        self._state.advance(*(HoldReleased(hold) for hold in asked.replaced))
        return HoldId(f"over-{secrets.token_hex(6)}")

    def _held(self, asked: Place, found: Placed, before: Sequence[Pod]) -> HoldId | HoldRefused:
        """Booked, what the pods and the holds before it had being given back in the same step."""
        hold_id = HoldId(f"hold-{secrets.token_hex(6)}")
        key = f"{_PREFIX}{asked.id}/{hold_id}"
        booking = HoldAsked(
            id=hold_id,
            wish=HoldRequest(found.request, self._hold_s, key),
            generation=self._state.generation,
            mode=found.mode,
            gpu_type=found.gpu_type,
            groups=found.groups,
            without=asked.without,
        )
        *_, change = self._state.advance(
            *(PodGone(pod.uid) for pod in before),
            *(HoldReleased(hold) for hold in asked.replaced),
            booking,
        )
        if isinstance(change, HoldRefused):
            return change
        assert isinstance(change, HoldChange), "it was reserved"  # noqa: S101 - for the checker
        return change.hold.id


def gang_of_hold(hold: Hold) -> GangId | None:
    """The gang that a hold was made for; None for a hold of somebody else's."""
    key = hold.wish.key or ""
    return GangId(key.split("/")[1]) if key.startswith(_PREFIX) and key.count("/") == 2 else None


def _in_words(evicted: Sequence[Evictable]) -> str:
    """Who has to go, in words; empty for nobody."""
    if not evicted:
        return ""
    units = units_of(evicted)
    most = max(pod.priority for pod in evicted)
    shown = listed([f"{pods} of {unit}" for unit, pods in sorted(units.items())])
    return f"{counted(len(evicted), 'pod')} of priority {most} or less ({shown})"
