"""The order in which gangs are placed, and the nodes that are kept for the first gang.

Result: the gang to try next. Each gang is tried once whenever the free capacity grows. Gangs are
ordered by priority, then by age; those whose nodes are booked already come first. Gangs with equal
requests form one bucket: once one of them is refused, the others are not tried. Nor are larger
requests of the same family (`QueueRequest.family`), once each was refused for itself: its reason
has its own numbers, and says whether it would ever fit. A gang ahead of the head is still tried.

With `reserve`, the default, the first gang that is refused is the head. The nodes on which it would
fit first are kept for it: gangs behind it are placed without them. They are the nodes on which the
fewest slots are missing; ties go to the first in the order of the tree (`reservation`).

Why the head is not delayed. No gang behind the head takes a kept node, so while the kept nodes stay
the same, the number of missing slots on them only decreases. If other nodes have fewer missing
slots, they are kept instead. So the pair (missing slots, place in the tree) only ever decreases,
and it does so each time a job on kept nodes ends. The head therefore waits only for jobs that run
there, however many smaller gangs follow. A gang that would never fit keeps no nodes and delays no
other gang.

`fifo` tries no gang behind the head; `greedy` keeps nothing, and starves large gangs.

Cost: O(log gangs) for `join`, `leave` and `next`; O(distinct requests) when the free capacity
grows. A refusal of a request is valid for all gangs with the same request.

Example: 4 dragonflies of two nodes, all full but one; in the queue A (2 nodes of 8), B (1), C (1).
    A is tried first, and gets the free dragonfly. B is refused; C asks for the same as B, so that
    it is not tried. One node of d2 becomes free: B is tried, and gets it.
With A asking for 4 nodes: A is refused and is the head; the free dragonfly and one more are kept.
    B is tried without them and refused: it would fit there, so that it is `behind`.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import heapify, heappop, heappush
from itertools import count

from topo.gangs.machine.events import Refused
from topo.gangs.machine.gang import Gang, GangId
from topo.model.ids import NodeName
from topo.placement.job.request import Request

QueuePosition = tuple[int, float, GangId]
"""Place in the order: priority from the highest, then age, then the id."""
_BOOKED = -(1 << 40)
"""Ahead of every priority, which has 32 bits: a gang whose nodes are booked delays nobody."""


class QueueOrder(StrEnum):
    """What gangs behind the first one that does not fit may do."""

    RESERVE = "reserve"
    """Be placed where they do not delay it."""
    FIFO = "fifo"
    """Wait for it."""
    GREEDY = "greedy"
    """Be placed wherever there is room."""


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """The request of a gang in the queue; gangs with equal requests get the same answer.

    `pods` are uids if only this gang can make the request: more whole groups of a running gang.
    `over`: the gang may be planned over pods of lower priority than this; None for no eviction.
    `keeper` is the namespace of a gang that keeps places for pods that are not there yet: what one
    may not keep is refused to no other.
    """

    request: Request
    pods: frozenset[str] = frozenset()
    over: int | None = None
    keeper: str = ""

    @property
    def family(self) -> Request | None:
        """The family of the request: if a member does not fit, no larger member does.

        A request of less than one group has none: it is placed in another tier than whole groups.
        """
        alike = (
            not (self.pods or self.keeper)
            and self.over is None
            and self.request.group_size is not None
            and self.request.whole_groups
        )
        return replace(self.request, pods=0) if alike else None


@dataclass(frozen=True, slots=True)
class QueueTurn:
    """The gang to try now; `without` are the nodes that are kept for another gang.

    `reserve`: if the gang is refused, nodes are kept for it. `over` is that of its `QueueRequest`.
    """

    id: GangId
    without: tuple[NodeName, ...]
    reserve: bool
    over: int | None = None


class PendingQueue:
    """The gangs that wait for room. Mutable; its one owner tries one gang at a time."""

    def __init__(self, order: QueueOrder) -> None:
        self._order = order
        self._positions: dict[GangId, QueuePosition] = {}
        self._requests: dict[GangId, QueueRequest] = {}
        self._names: dict[GangId, str] = {}
        self._buckets: dict[QueueRequest, list[QueuePosition]] = {}
        self._candidates: list[tuple[QueuePosition, int, QueueRequest]] = []
        """A heap with the first gang of each bucket that was not refused, and outdated entries,
        which `next` drops. The number tells the entries of a gang apart that asked for several
        things, because requests have no order."""
        self._numbers = count()
        self._refused: dict[QueueRequest, Refused] = {}
        """The refusals since there was more room last."""
        self._refused_first: set[QueueRequest] = set()
        """The requests among them that were refused to a gang with no head before it."""
        self._least: dict[Request, int] = {}
        """The fewest pods that were refused of each family since then."""
        self._answers: dict[QueueRequest, Refused] = {}
        """The last answer for each bucket, to be reported."""
        self._elastic: dict[GangId, None] = {}
        """Gangs that ask for all of their pods, of which fewer suffice to start."""
        self._head: GangId | None = None
        self._kept: tuple[NodeName, ...] = ()

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, gang_id: object) -> bool:
        return gang_id in self._positions

    @property
    def head(self) -> GangId | None:
        """The gang for which nodes are kept, or for which others wait; None without one."""
        return self._head

    @property
    def head_name(self) -> str:
        """The namespace and name of the head's job; empty without a head."""
        return "" if self._head is None else self._names[self._head]

    @property
    def kept(self) -> tuple[NodeName, ...]:
        """The nodes that are kept for the head."""
        return self._kept

    def answer(self, gang_id: GangId) -> Refused | None:
        """Return the last refusal of the gang's request, given to any gang with this request."""
        return self._answers.get(self._requests[gang_id])

    def take_elastic(self) -> Iterator[GangId]:
        """Yield, once, the gangs with all of their pods refused of which fewer suffice to start.

        The refusal may be that of an equal request, or of a smaller one of its family. O(elastic
        gangs in the queue).
        """
        for gang_id in tuple(self._elastic):
            first = self._may_be_head(self._positions[gang_id])
            if self._is_refused(self._requests[gang_id], first=first):
                del self._elastic[gang_id]
                yield gang_id

    def ahead(self, gang_id: GangId) -> int | None:
        """Return how many gangs are ahead of this one; None outside of the queue. O(gangs)."""
        position = self._positions.get(gang_id)
        if position is None:
            return None
        return sum(other < position for other in self._positions.values())

    def in_turn(self) -> list[GangId]:
        """Return all gangs, each behind those that are ahead of it; O(gangs log gangs)."""
        return sorted(self._positions, key=self._positions.__getitem__)

    def join(self, gang: Gang, request: QueueRequest) -> None:
        """Add a gang, or move it to the bucket of its new request; O(log gangs)."""
        first = _BOOKED if gang.booked else 0
        position = (first - gang.priority, gang.created_s, gang.id)
        if self._positions.get(gang.id) == position and self._requests[gang.id] == request:
            return
        self.leave(gang.id)
        self._positions[gang.id], self._requests[gang.id] = position, request
        self._names[gang.id] = f"{gang.namespace}/{gang.name}"
        asks_for_all = request.request.pods == gang.request.pods and not request.pods
        if gang.starts_in_part and asks_for_all:
            self._elastic[gang.id] = None
        insort(self._buckets.setdefault(request, []), position)
        heappush(self._candidates, (position, next(self._numbers), request))

    def leave(self, gang_id: GangId) -> None:
        """Remove a gang that was placed or is gone; an unknown one is ignored. O(log gangs)."""
        position = self._positions.pop(gang_id, None)
        if position is None:
            return
        request = self._requests.pop(gang_id)
        del self._names[gang_id]
        self._elastic.pop(gang_id, None)
        bucket = self._buckets[request]
        del bucket[bisect_left(bucket, position)]
        if bucket:
            heappush(self._candidates, (bucket[0], next(self._numbers), request))
        else:
            del self._buckets[request]
            self._forget(request)
            self._answers.pop(request, None)
        if gang_id == self._head:
            self._clear_head()
        elif self._head is not None and position < self._positions[self._head]:
            # A gang ahead of the head may have taken kept nodes, so that the head is tried again.
            self._retry(self._requests[self._head])

    def requeue_all(self) -> None:
        """Try all gangs again, because there is more room; O(distinct requests)."""
        self._refused.clear()
        self._refused_first.clear()
        self._least.clear()
        self._candidates = [
            (bucket[0], next(self._numbers), request) for request, bucket in self._buckets.items()
        ]
        heapify(self._candidates)

    def next(self) -> QueueTurn | None:
        """Return the gang to try now; None if all were tried or have to wait."""
        while self._candidates:
            position, _, request = self._candidates[0]
            bucket = self._buckets.get(request)
            first = self._may_be_head(position)
            if bucket is None or bucket[0] != position or self._is_refused(request, first=first):
                heappop(self._candidates)
                continue
            if not first and self._order is QueueOrder.FIFO:
                return None
            return QueueTurn(position[2], () if first else self._kept, first, request.over)
        return None

    def refuse(self, refused: Refused) -> None:
        """Record that the gang returned by `next` does not fit."""
        request, position = self._requests[refused.id], self._positions[refused.id]
        self._refused[request] = self._answers[request] = refused
        family = request.family
        if family is not None and not refused.behind:
            least = self._least.get(family)
            if least is None or request.request.pods < least:
                self._least[family] = request.request.pods
        first = self._may_be_head(position)
        if first:
            self._refused_first.add(request)
        if first and refused.reservation:
            changed = self._head not in {None, refused.id} or self._kept != refused.reservation
            self._head, self._kept = refused.id, refused.reservation
            if self._order is QueueOrder.FIFO:
                self._kept = ()
            elif changed:
                self._retry(
                    *(request for request, answer in self._refused.items() if answer.behind)
                )
        elif first and refused.id == self._head:
            self._clear_head()

    def _clear_head(self) -> None:
        """Remove the head; the gangs that waited for it are tried again."""
        self._head, self._kept = None, ()
        self.requeue_all()

    def _retry(self, *requests: QueueRequest) -> None:
        for request in requests:
            self._forget(request)
            if request in self._buckets:
                heappush(
                    self._candidates, (self._buckets[request][0], next(self._numbers), request)
                )

    def _forget(self, request: QueueRequest) -> None:
        """Drop the refusal of a request, so that it may be tried again."""
        self._refused.pop(request, None)
        self._refused_first.discard(request)

    def _is_behind_head(self, position: QueuePosition) -> bool:
        return self._head is not None and position > self._positions[self._head]

    def _may_be_head(self, position: QueuePosition) -> bool:
        """Whether nodes would be kept for the gang if it is refused: no head is ahead of it."""
        return self._order is not QueueOrder.GREEDY and not self._is_behind_head(position)

    def _is_refused(self, request: QueueRequest, *, first: bool) -> bool:
        """Whether the request, or one of its family that is no larger, was refused since.

        A gang that may become the head is tried although gangs behind the head were refused for the
        same request: kept nodes are not withheld from it, and if it is refused, nodes are kept for
        it.
        """
        if first:
            return request in self._refused_first
        if request in self._refused:
            return True
        if request not in self._answers:  # it is refused for itself first
            return False
        least = self._least.get(request.family) if request.family is not None else None
        return least is not None and least <= request.request.pods

    def invariants(self) -> Iterator[tuple[bool, str]]:
        """Yield each invariant as (does it fail, what fails); O(gangs)."""
        buckets: dict[QueueRequest, list[QueuePosition]] = {}
        for gang_id, request in self._requests.items():
            buckets.setdefault(request, []).append(self._positions[gang_id])
        ordered = {request: sorted(positions) for request, positions in buckets.items()}
        yield ordered != self._buckets, "the buckets of the queue are of other gangs"
        yield (
            self._positions.keys() != self._requests.keys(),
            "a gang in the queue asks for nothing",
        )
        yield (
            self._head is not None and self._head not in self._positions,
            "the head is not in the queue",
        )
        yield self._head is None and bool(self._kept), "nodes are kept without a head"
        waits = {
            request
            for request, bucket in self._buckets.items()
            if not self._is_refused(request, first=self._may_be_head(bucket[0]))
        }
        candidates = {
            request
            for position, _, request in self._candidates
            if self._buckets.get(request, [None])[0] == position
        }
        yield not waits <= candidates, "a gang is never tried"

    def waiting(self) -> Mapping[GangId, QueueRequest]:
        """Return the gangs in the queue with their requests."""
        return self._requests
