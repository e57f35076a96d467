"""The holds of which pods take shares without naming them: by their request, or by their rank."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from master.booking.state import BookingState
from master.kube.gang_pod import ClusterPod
from master.kube.objects import Key
from master.kube.store import Grouped
from topo.placement.booking.holds import Hold, HoldId


class HoldSource(Protocol):
    """Says which pods take shares of which holds."""

    def hold_of(self, pod: ClusterPod) -> HoldId | None:
        """Return the hold of which a pod takes a share; None for none."""
        ...

    def takers(self, hold: Hold) -> Iterable[Key]:
        """Return the pods that may take shares of a hold."""
        ...


class SharedHolds:
    """Finds the hold of a pod, and the pods for which it is another one by now.

    A pod may be known before its hold, and the hold before what the pod has it by. So the answers
    are remembered, and asked again where a part of them changed: the result is the same in any
    order.
    """

    def __init__(self, state: BookingState) -> None:
        self._state = state
        self.sources: list[HoldSource] = []
        """The first of these that has a hold for a pod counts."""
        self._answers: Grouped[HoldId, None] = Grouped()

    def take(self, key: Key, pod: ClusterPod) -> HoldId | None:
        """Return the hold of which a pod takes a share, and remember it; None for none."""
        hold = self._hold_of(pod)
        if hold is not None:
            self._answers.put(key, hold, None)
        else:
            self._answers.drop(key)
        return hold

    def forget(self, keys: Iterable[Key]) -> None:
        """Forget the answers for these pods."""
        for key in keys:
            self._answers.drop(key)

    def is_current(self, key: Key, pod: ClusterPod) -> bool:
        """Return whether the hold of a pod is the one that was answered last."""
        return self._hold_of(pod) == self._answers.group_of(key)

    def takers(self, holds: Iterable[HoldId]) -> Iterator[Key]:
        """Yield the pods that had, or may have, shares of holds that came or ended."""
        for hold_id in holds:
            yield from tuple(self._answers.values(hold_id))
            hold = self._state.find_hold(hold_id)
            if isinstance(hold, Hold):
                for source in self.sources:
                    yield from source.takers(hold)

    def _hold_of(self, pod: ClusterPod) -> HoldId | None:
        found = (source.hold_of(pod) for source in self.sources)
        hold = next((each for each in found if each is not None), None)
        if hold is None or not isinstance(self._state.find_hold(hold), Hold):
            return None
        return hold
