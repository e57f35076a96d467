"""Running sums over pods: GPUs of holds by node and phase, of opened pods, and shared cards.

The read-only view of bookings: holds, how they ended, and the GPUs that pods take.

A reader passes its own time. For that reader, a hold whose time is over counts as ended, although
only the next `Bookings.advance` ends it: reading changes nothing.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

from topo.model.ids import NodeName
from topo.placement.booking.events import Pod, PodPhase, PodSeen, What
from topo.placement.booking.holds import (
    FORMAT,
    ClockReading,
    Ended,
    Gpus,
    Hold,
    HoldId,
    HoldRefused,
    HoldRequest,
    HoldsMemory,
    Limits,
    beyond_limits,
    of_another,
)

K = TypeVar("K")
V = TypeVar("V")

_PHASES = tuple(PodPhase)


class PodCounts:
    """Sums over pods, by hold and by node. `Bookings` adds and drops each pod once."""

    def __init__(self) -> None:
        self._gpus_of: dict[tuple[HoldId, PodPhase], Counter[NodeName]] = {}
        self._shared: dict[NodeName, Counter[str]] = {}
        self.opened: Counter[NodeName] = Counter()
        """The GPUs of pods that are nominated to a node and not bound, by node."""
        self.opened_version = 0
        """A number that grows with every change of these."""

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
        if seen.phase is PodPhase.NOMINATED and pod.gpus:
            self.opened_version += 1
            self.opened[pod.node] += sign * pod.gpus
            if not self.opened[pod.node]:
                del self.opened[pod.node]
        if pod.hold is not None and pod.gpus:
            _add(self._gpus_of, (pod.hold, seen.phase), pod.node, sign * pod.gpus)

    def flaws(self, pods: Iterable[PodSeen]) -> Iterator[tuple[bool, str]]:
        """Yield each invariant as (is it broken, text); `pods` are all pods there are."""
        counted = PodCounts()
        for seen in pods:
            counted.add(seen)
        yield counted._shared != self._shared, "what pods take of shared cards is counted wrongly"
        yield counted.opened != self.opened, "the GPUs of pods that are opened are counted wrongly"
        wrong = counted._gpus_of != self._gpus_of
        yield wrong, "the GPUs of the pods of a hold are counted wrongly"


def _add(sums: dict[K, Counter[V]], key: K, of: V, number: int) -> None:
    counted = sums.setdefault(key, Counter())
    counted[of] += number
    if not counted[of]:
        del counted[of]
    if not counted:
        del sums[key]


@dataclass(frozen=True, slots=True)
class BookingsState:
    """The complete state of a machine, to continue in another process. Times are of its clock."""

    holds: tuple[Hold, ...] = ()
    pods: tuple[PodSeen, ...] = ()
    ended: tuple[Ended, ...] = ()


class BookingsView:
    """All holds and pods, read-only.

    Times are on the clock of `advance`; without a time, the answer is as of the last `advance`.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._holds: dict[HoldId, Hold] = {}
        self._planned: dict[HoldId, Mapping[NodeName, int]] = {}
        self._keys: dict[str, HoldId] = {}
        self._deadlines: list[tuple[float, HoldId]] = []
        self._ends: dict[HoldId, Ended] = {}
        self._ended: deque[HoldId] = deque()
        self._pods: dict[str, PodSeen] = {}
        self._pods_of: dict[HoldId, dict[str, None]] = {}
        self._counts = PodCounts()
        self._elsewhere: dict[HoldId, Gpus] = {}
        self._as_planned: set[HoldId] = set()
        """Holds whose pods take nowhere more than was planned there."""
        self._touched: dict[HoldId, dict[NodeName, None]] = {}
        """Holds whose pods are to be looked at before `advance` returns, and the nodes of these."""
        self._most = self._limits.holds
        self._version = 0

    @property
    def version(self) -> int:
        """A number that grows with every change."""
        return self._version

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        """Iterate over the holds that no `advance` has ended, the oldest first."""
        return iter(self._holds.values())

    def expired(self, now_s: float) -> tuple[HoldId, ...]:
        """Return the holds that have expired but no `advance` has ended yet; mostly O(1)."""
        if not self._deadlines or self._deadlines[0][0] > now_s:
            return ()
        return tuple(hold.id for hold in self if hold.is_expired(now_s))

    def running(self, now_s: float) -> list[Hold]:
        """Return the holds that have not expired, the oldest first."""
        return [hold for hold in self if not hold.is_expired(now_s)]

    def find(self, hold_id: HoldId, now_s: float = -inf) -> Hold | Ended | None:
        """Return the hold, or how it ended; None if it is unknown or ended long ago. O(1)."""
        hold = self._holds.get(hold_id)
        if hold is not None and hold.deadline_s is not None and hold.is_expired(now_s):
            return Ended(hold_id, What.EXPIRED.value, hold.deadline_s)
        return hold or self._ends.get(hold_id)

    def find_by_key(self, wish: HoldRequest, now_s: float = -inf) -> Hold | HoldRefused | None:
        """Return the hold with the request's key, or a refusal if the hold is for another request.

        None if the key is new, or the request has none. O(1).
        """
        hold = self._holds[self._keys[wish.key]] if wish.key in self._keys else None
        if hold is None or hold.is_expired(now_s):
            return None
        return hold if hold.wish == wish else of_another(hold, wish)

    def refuse_impossible(self, wish: HoldRequest, now_s: float = -inf) -> HoldRefused | None:
        """Return why a request cannot be held whatever is free: time, pods, key, number of holds.

        Mostly O(1).
        """
        return beyond_limits(wish, self._limits, len(self._holds) - len(self.expired(now_s)))

    def planned(self, hold_id: HoldId) -> Mapping[NodeName, int]:
        """Return the GPUs by node that a hold books, whatever pods have of them; O(1)."""
        return self._planned[hold_id]

    def awaited(self, hold_id: HoldId) -> Mapping[NodeName, int]:
        """Return the GPUs by node that a hold keeps for pods that do not exist yet; O(nodes)."""
        planned = self._planned[hold_id]
        # Most holds have no pods yet: they wait for all that was planned.
        if hold_id not in self._pods_of:
            return planned
        taken = self._counts.taken(hold_id)
        left = max(0, sum(planned.values()) - taken.total())
        awaited: dict[NodeName, int] = {}
        for node, gpus in planned.items():
            # Pods that went elsewhere take from the last nodes, since first ranks come first.
            share = min(left, gpus - taken.get(node, 0))
            if share > 0:
                awaited[node] = share
                left -= share
        return awaited

    def pods(self, uids: Iterable[str]) -> list[Pod]:
        """Return those of the given pods that take something."""
        return [self._pods[uid].pod for uid in uids if uid in self._pods]

    def unbound_pods(self, uids: Iterable[str]) -> list[Pod]:
        """Return those of the given pods that take something and are not bound."""
        found = (self._pods[uid] for uid in uids if uid in self._pods)
        return [seen.pod for seen in found if seen.phase is not PodPhase.BOUND]

    def has_pod(self, uid: str) -> bool:
        """Return whether a pod takes something; O(1)."""
        return uid in self._pods

    def shared_used(self) -> dict[NodeName, tuple[tuple[str, int], ...]]:
        """Return the shared cards that pods take, by node as (resource, number); O(such nodes)."""
        return self._counts.shared()

    def opened(self) -> Mapping[NodeName, int]:
        """Return the GPUs of pods that are nominated and not bound, by node; O(such nodes)."""
        return dict(self._counts.opened)

    @property
    def opened_version(self) -> int:
        """A number that grows with every change of `opened`."""
        return self._counts.opened_version

    def state(self) -> BookingsState:
        """Return the complete state as a value; O(holds and pods)."""
        ended = tuple(self._ends[hold_id] for hold_id in self._ended)
        return BookingsState(tuple(self), tuple(self._pods.values()), ended)

    def persistent_state(self, now: ClockReading) -> HoldsMemory:
        """Return the content of a state file at this moment.

        Pods are not stored: a new process reads them from the cluster.
        """
        ahead_s = now.unix_s - now.clock_s
        holds = self.running(now.clock_s)
        return HoldsMemory(FORMAT, tuple(_moved(hold, ahead_s) for hold in holds), now)


def _moved(hold: Hold, by_s: float) -> Hold:
    deadline_s = hold.deadline_s
    return replace(
        hold,
        created_s=hold.created_s + by_s,
        deadline_s=None if deadline_s is None else deadline_s + by_s,
    )
