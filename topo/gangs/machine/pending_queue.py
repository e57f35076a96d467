"""Who is placed next: gangs in the order of priority, then age, and what is kept for the first.

Finds the gang whose turn it is, each time that one was placed or refused, until each was asked
about since there was more room last. Gangs that ask for the same are one bucket: once one of them
was refused, the others are not asked about; nor are larger ones of the same kind of groups. One
that comes before the head is, for it was nobody before it who was refused.

Of `reserve`, the default: the first gang that is refused is the head. The nodes on which it would
fit first are kept for it: whoever comes after it is placed without them. They are those on which
the fewest slots have yet to become free, the first in the order of the tree among equals
(`reservation`).

Why the head is not delayed. Nobody behind it takes a kept node, so what has yet to become free
there only decreases while the nodes stay what they are. When others become nearer, they are kept
instead: the pair (what is missing, place in the tree) only ever decreases, and it does each time
that a job on kept nodes ends. So the head waits for no other job than those that run there, however
many smaller ones come behind it. A gang that would never fit keeps nothing and holds up nobody.

`fifo` asks about nobody behind the head; `greedy` keeps nothing, and starves large gangs.

Cost: O(log gangs) to join, leave and be next; O(distinct requests) where there is more room. An
answer about one request is worth for all that ask for it.

Example: 4 dragonflies of two nodes, all full but one; line: A (2 nodes of 8), B (1), C (1).
    A is asked about first, and gets the free dragonfly. B is refused; C asks for the same as B.
    One node of d2 becomes free: B is asked about, and gets it.
With A asking for 4 nodes: A is refused and is the head, the free dragonfly and one more are kept.
    B is asked about without them, and refused: it would fit, so it is `behind`.
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
"""Place in the order: priority from the highest, then age, then the name."""


class QueueOrder(StrEnum):
    """What those behind the first gang that does not fit may do."""

    RESERVE = "reserve"
    """They are placed where they do not delay it."""
    FIFO = "fifo"
    """They wait for it."""
    GREEDY = "greedy"
    """They are placed where there is room."""


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """What is asked for; gangs that ask for the same get the same answer.

    `pods` names the pods of an ask that is of one gang alone: whole groups more of it. `over`: it
    may be planned over pods of a lower priority than this.
    """

    request: Request
    pods: frozenset[str] = frozenset()
    over: int | None = None

    @property
    def family(self) -> Request | None:
        """Requests of which a larger one fits only where a smaller one does; None: of no such.

        A request of less than a group goes by another tier than one of a whole group.
        """
        alike = (
            not self.pods
            and self.over is None
            and self.request.group_size is not None
            and self.request.whole_groups
        )
        return replace(self.request, pods=0) if alike else None


@dataclass(frozen=True, slots=True)
class QueueTurn:
    """A gang to be asked about, without the nodes that are kept for another one.

    `reserve`: if it is refused, nodes are to be kept for it. `over`: as in `QueueRequest`.
    """

    id: GangId
    without: tuple[NodeName, ...]
    reserve: bool
    over: int | None = None


class PendingQueue:
    """The gangs that wait for room. One owner, which asks about one gang at a time."""

    def __init__(self, order: QueueOrder) -> None:
        self._order = order
        self._ranks: dict[GangId, QueuePosition] = {}
        self._shapes: dict[GangId, QueueRequest] = {}
        self._buckets: dict[QueueRequest, list[QueuePosition]] = {}
        self._turns: list[tuple[QueuePosition, int, QueueRequest]] = []
        """A heap with the first of each bucket that was not refused, and what was there before.
        A number tells entries of one gang apart, which may have asked for several things."""
        self._numbers = count()
        self._refused: dict[QueueRequest, Refused] = {}
        """Since there was more room last."""
        self._refused_first: set[QueueRequest] = set()
        """Those of them that were refused with nobody before them."""
        self._least: dict[Request, int] = {}
        """The fewest pods that were refused of each family, since then."""
        self._answers: dict[QueueRequest, Refused] = {}
        """The last answer about each bucket, to be told."""
        self._families: dict[Request, tuple[int, Refused]] = {}
        """The last answer about each family, and about how many pods it was."""
        self._head: GangId | None = None
        self._kept: tuple[NodeName, ...] = ()

    def __len__(self) -> int:
        return len(self._ranks)

    def __contains__(self, gang_id: object) -> bool:
        return gang_id in self._ranks

    @property
    def head(self) -> GangId | None:
        """The gang that nodes are kept for, or that others wait for."""
        return self._head

    @property
    def kept(self) -> tuple[NodeName, ...]:
        """The nodes that are kept for the head."""
        return self._kept

    def answer(self, gang_id: GangId) -> Refused | None:
        """The last refusal of what a gang asks for, to whichever of its bucket it was given."""
        shape = self._shapes[gang_id]
        found = self._answers.get(shape)
        if found is None and shape.family in self._families:
            pods, smaller = self._families[shape.family]
            found = smaller if pods <= shape.request.pods else None
        return found

    def ahead(self, gang_id: GangId) -> int:
        """How many gangs are before this one; O(gangs), for those who ask."""
        rank = self._ranks[gang_id]
        return sum(other < rank for other in self._ranks.values())

    def join(self, gang: Gang, shape: QueueRequest) -> None:
        """A gang waits, or asks for something else than before; O(log gangs)."""
        rank = (-gang.priority, gang.created_s, gang.id)
        if self._ranks.get(gang.id) == rank and self._shapes[gang.id] == shape:
            return
        self.leave(gang.id)
        self._ranks[gang.id], self._shapes[gang.id] = rank, shape
        insort(self._buckets.setdefault(shape, []), rank)
        heappush(self._turns, (rank, next(self._numbers), shape))

    def leave(self, gang_id: GangId) -> None:
        """A gang waits no more: it has its place, or is gone. Unknown ones are no error."""
        rank = self._ranks.pop(gang_id, None)
        if rank is None:
            return
        shape = self._shapes.pop(gang_id)
        bucket = self._buckets[shape]
        del bucket[bisect_left(bucket, rank)]
        if bucket:
            heappush(self._turns, (bucket[0], next(self._numbers), shape))
        else:
            del self._buckets[shape]
            self._forget(shape)
            self._answers.pop(shape, None)
        if gang_id == self._head:
            self._clear_head()
        elif self._head is not None and rank < self._ranks[self._head]:
            self._again(self._shapes[self._head])  # it may have taken what was kept

    def requeue_all(self) -> None:
        """There is more room: all are asked about again; O(distinct requests)."""
        self._refused.clear()
        self._refused_first.clear()
        self._least.clear()
        self._turns = [
            (bucket[0], next(self._numbers), shape) for shape, bucket in self._buckets.items()
        ]
        heapify(self._turns)

    def next(self) -> QueueTurn | None:
        """The gang to be asked about now; None where all were, or have to wait."""
        while self._turns:
            rank, _, shape = self._turns[0]
            bucket = self._buckets.get(shape)
            first = self._first(rank)
            if bucket is None or bucket[0] != rank or self._hopeless(shape, first=first):
                heappop(self._turns)
                continue
            if not first and self._order is QueueOrder.FIFO:
                return None
            return QueueTurn(rank[2], () if first else self._kept, first, shape.over)
        return None

    def refuse(self, refused: Refused) -> None:
        """What came of asking about the gang that was next."""
        shape, rank = self._shapes[refused.id], self._ranks[refused.id]
        self._refused[shape] = self._answers[shape] = refused
        family = shape.family
        if family is not None and not refused.behind:
            least = self._least.get(family)
            if least is None or shape.request.pods < least:
                self._least[family] = shape.request.pods
                self._families[family] = shape.request.pods, refused
        first = self._first(rank)
        if first:
            self._refused_first.add(shape)
        if first and refused.reservation:
            changed = self._head not in {None, refused.id} or self._kept != refused.reservation
            self._head, self._kept = refused.id, refused.reservation
            if self._order is QueueOrder.FIFO:
                self._kept = ()
            elif changed:
                self._again(*(shape for shape, answer in self._refused.items() if answer.behind))
        elif first and refused.id == self._head:
            self._clear_head()

    def _clear_head(self) -> None:
        """Nobody is the head: those that waited for it may be asked about."""
        self._head, self._kept = None, ()
        self.requeue_all()

    def _again(self, *shapes: QueueRequest) -> None:
        for shape in shapes:
            self._forget(shape)
            if shape in self._buckets:
                heappush(self._turns, (self._buckets[shape][0], next(self._numbers), shape))

    def _forget(self, shape: QueueRequest) -> None:
        """It may be asked about again."""
        self._refused.pop(shape, None)
        self._refused_first.discard(shape)

    def _behind(self, rank: QueuePosition) -> bool:
        return self._head is not None and rank > self._ranks[self._head]

    def _first(self, rank: QueuePosition) -> bool:
        """Whether nodes are kept for it if it is refused, and none are for anybody before it."""
        return self._order is not QueueOrder.GREEDY and not self._behind(rank)

    def _hopeless(self, shape: QueueRequest, *, first: bool) -> bool:
        """Whether it, or one of its family that is no larger, was refused since there was room.

        One that may become the head is asked about although others were refused the same behind
        the head: what is kept there is not kept from it, and nodes are to be kept for it.
        """
        if first:
            return shape in self._refused_first
        least = self._least.get(shape.family) if shape.family is not None else None
        return shape in self._refused or (least is not None and least <= shape.request.pods)

    def invariants(self) -> Iterator[tuple[bool, str]]:
        """Each invariant as (does it fail, what fails); O(gangs)."""
        buckets: dict[QueueRequest, list[QueuePosition]] = {}
        for gang_id, shape in self._shapes.items():
            buckets.setdefault(shape, []).append(self._ranks[gang_id])
        ordered = {shape: sorted(ranks) for shape, ranks in buckets.items()}
        yield ordered != self._buckets, "the buckets of the line are of others"
        yield self._ranks.keys() != self._shapes.keys(), "a gang in line asks for nothing"
        yield self._head is not None and self._head not in self._ranks, "the head is not in line"
        yield self._head is None and bool(self._kept), "nodes are kept for nobody"
        waits = {
            shape
            for shape, bucket in self._buckets.items()
            if not self._hopeless(shape, first=self._first(bucket[0]))
        }
        turns = {
            shape for rank, _, shape in self._turns if self._buckets.get(shape, [None])[0] == rank
        }
        yield not waits <= turns, "a gang is never asked about"

    def waiting(self) -> Mapping[GangId, QueueRequest]:
        """The gangs in line and what each asks for."""
        return self._shapes
