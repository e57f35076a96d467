"""Running sums over pods: GPUs of each hold by node and phase, and shared cards by node."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

from topo.model.ids import NodeName
from topo.placement.booking.events import PodPhase, PodSeen
from topo.placement.booking.holds import HoldId

K = TypeVar("K")
V = TypeVar("V")

_PHASES = tuple(PodPhase)


class PodCounts:
    """Sums over pods, by hold and by node. `Bookings` adds and drops each pod once."""

    def __init__(self) -> None:
        self._gpus_of: dict[tuple[HoldId, PodPhase], Counter[NodeName]] = {}
        self._shared: dict[NodeName, Counter[str]] = {}

    def shared(self) -> dict[NodeName, tuple[tuple[str, int], ...]]:
        """Return the shared cards that pods take, by node as (resource, number); O(such nodes)."""
        return {node: tuple(used.items()) for node, used in self._shared.items()}

    def taken(self, hold: HoldId, *phases: PodPhase) -> Counter[NodeName]:
        """Return the GPUs that a hold's pods take, by node, in some or all phases; O(nodes)."""
        taken: Counter[NodeName] = Counter()
        for phase in phases or _PHASES:
            taken.update(self._gpus_of.get((hold, phase), {}))
        return taken

    def taken_on(self, hold: HoldId, node: NodeName) -> int:
        """Return the GPUs that the pods of a hold take on one node; O(1)."""
        counted = (self._gpus_of.get((hold, phase)) for phase in _PHASES)
        return sum(gpus[node] for gpus in counted if gpus)

    def total(self, hold: HoldId, phase: PodPhase) -> int:
        """Return the GPUs that the pods of a hold in one phase take; O(nodes)."""
        return sum(self._gpus_of.get((hold, phase), {}).values())

    def add(self, seen: PodSeen) -> None:
        """Count a pod."""
        self._count(seen, 1)

    def drop(self, seen: PodSeen) -> None:
        """Stop counting a pod."""
        self._count(seen, -1)

    def _count(self, seen: PodSeen, sign: int) -> None:
        pod = seen.pod
        for resource, number in pod.shared:
            _add(self._shared, pod.node, resource, sign * number)
        if pod.hold is not None and pod.gpus:
            _add(self._gpus_of, (pod.hold, seen.phase), pod.node, sign * pod.gpus)

    def flaws(self, pods: Iterable[PodSeen]) -> Iterator[tuple[bool, str]]:
        """Yield each invariant as (is it broken, text); `pods` are all pods there are."""
        counted = PodCounts()
        for seen in pods:
            counted.add(seen)
        yield counted._shared != self._shared, "what pods take of shared cards is counted wrongly"
        wrong = counted._gpus_of != self._gpus_of
        yield wrong, "the GPUs of the pods of a hold are counted wrongly"


def _add(sums: dict[K, Counter[V]], key: K, of: V, number: int) -> None:
    counted = sums.setdefault(key, Counter())
    counted[of] += number
    if not counted[of]:
        del counted[of]
    if not counted:
        del sums[key]
