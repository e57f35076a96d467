"""What pods take, counted as they come and go: of each hold by node and phase, of shared cards."""

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
    """Sums over pods. Mutable; `Bookings` owns it and tells it of each pod once."""

    def __init__(self) -> None:
        self._gpus_of: dict[tuple[HoldId, PodPhase], Counter[NodeName]] = {}
        self._shared: dict[NodeName, Counter[str]] = {}

    def shared(self) -> dict[NodeName, tuple[tuple[str, int], ...]]:
        """What pods take of shared cards, by node: (resource, number); O(nodes with such pods)."""
        return {node: tuple(used.items()) for node, used in self._shared.items()}

    def taken(self, hold: HoldId, *phases: PodPhase) -> Counter[NodeName]:
        """GPUs by node that the pods of a hold take, or those of them in some phases; O(nodes)."""
        taken: Counter[NodeName] = Counter()
        for phase in phases or _PHASES:
            taken.update(self._gpus_of.get((hold, phase), {}))
        return taken

    def taken_on(self, hold: HoldId, node: NodeName) -> int:
        """GPUs that the pods of a hold take on one node; O(1)."""
        counted = (self._gpus_of.get((hold, phase)) for phase in _PHASES)
        return sum(gpus[node] for gpus in counted if gpus)

    def total(self, hold: HoldId, phase: PodPhase) -> int:
        """GPUs that the pods of a hold in one phase take on all nodes; O(nodes) of plain adding."""
        return sum(self._gpus_of.get((hold, phase), {}).values())

    def add(self, seen: PodSeen) -> None:
        """A pod takes something from now on."""
        self._count(seen, 1)

    def drop(self, seen: PodSeen) -> None:
        """It does not any more; nothing of 0 stays behind."""
        self._count(seen, -1)

    def _count(self, seen: PodSeen, sign: int) -> None:
        pod = seen.pod
        for resource, number in pod.shared:
            _add(self._shared, pod.node, resource, sign * number)
        if pod.hold is not None and pod.gpus:
            _add(self._gpus_of, (pod.hold, seen.phase), pod.node, sign * pod.gpus)

    def flaws(self, pods: Iterable[PodSeen]) -> Iterator[tuple[bool, str]]:
        """Each invariant as (does it fail, what fails), these being all pods there are."""
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
