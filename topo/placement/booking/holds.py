"""Holds: placements that are reserved for a time, kept, or given back; the time is an argument.

A hold books its GPUs in the `Capacity` under its own id, so that whoever places next sees them as
used. Times are seconds on the caller's monotonic clock; only `memory` speaks Unix time.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import heappop, heappush
from typing import NewType

from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.limits import MAX_KEY_CHARS
from topo.placement.capacity.capacity import Capacity, Difference
from topo.placement.job.plan import Plan, PlannedGroup, Pods
from topo.placement.job.request import Mode, Request

HoldId = NewType("HoldId", str)

FORMAT = 1
_REMEMBERED_ENDS = 1000
"""Ends of holds that are told apart from holds that never were."""


class HoldState(StrEnum):
    """Held until its deadline, or committed: kept until it is released."""

    HELD = "held"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class Wish:
    """A placement to be held for `hold_s` seconds.

    Whoever asks again with the same `key` means the same hold, as long as there is one.
    """

    request: Request
    hold_s: float
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What the owner of the state gives a hold: a name that is new, the forest it was made on."""

    id: HoldId
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A placement that is reserved; without a deadline it is committed."""

    id: HoldId
    wish: Wish
    mode: Mode
    gpu_type: str
    groups: tuple[PlannedGroup, ...]
    generation: int
    created_s: float
    deadline_s: float | None

    @property
    def state(self) -> HoldState:
        """Whether it still has a time limit."""
        return HoldState.COMMITTED if self.deadline_s is None else HoldState.HELD

    @property
    def gpus(self) -> dict[NodeName, int]:
        """What it books."""
        return booked((group.pods for group in self.groups), self.wish.request.gpus_per_pod)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many holds there may be at once, how long each may wait, how many pods each may have."""

    holds: int = 1000
    hold_s: float = 86_400.0
    pods: int = 100_000


class Obstacle(StrEnum):
    """Why a hold was not given."""

    TERMS = "terms"
    """What is asked for is beyond the limits."""
    KEY = "key"
    """The key belongs to another request."""
    FULL = "full"
    """There are as many holds as there may be."""
    ROOM = "room"
    """The plan does not fit any more."""
    DISK = "disk"
    """It could not be written down, so a restart might lose it."""


@dataclass(frozen=True, slots=True)
class Declined:
    """No hold, and why."""

    obstacle: Obstacle
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Ended:
    """A hold that is not there any more: it was `released`, or it `expired`."""

    id: HoldId
    how: str
    at_s: float


@dataclass(frozen=True, slots=True)
class HoldsMemory:
    """What a state file keeps: all holds, with their times as Unix time in seconds."""

    format: int
    holds: tuple[Hold, ...]


class Holds:
    """All holds, each booked in the capacity under its id; never more than there is room for."""

    def __init__(self, capacity: Capacity, limits: Limits | None = None) -> None:
        self._capacity = capacity
        self._limits = limits or Limits()
        self._holds: dict[HoldId, Hold] = {}
        self._keys: dict[str, HoldId] = {}
        self._deadlines: list[tuple[float, HoldId]] = []
        self._ends: dict[HoldId, Ended] = {}
        self._ended: deque[HoldId] = deque()
        self.version = 0
        """Grows with every change."""

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        """The holds, the oldest first."""
        return iter(self._holds.values())

    def find(self, hold_id: HoldId) -> Hold | Ended | None:
        """The hold, how it ended, or None for one that never was (or ended long ago); O(1)."""
        return self._holds.get(hold_id) or self._ends.get(hold_id)

    def known(self, wish: Wish) -> Hold | Declined | None:
        """The hold that the wish's key already has; declined where that is for something else.

        None: the key is new, so a hold is yet to be made. O(1).
        """
        if wish.key is None or wish.key not in self._keys:
            return None
        hold = self._holds[self._keys[wish.key]]
        if hold.wish == wish:
            return hold
        what = f"the key {wish.key!r} belongs to hold {hold.id} of another request: "
        what += _difference(hold.wish, wish)
        fix = f"use a new key, or repeat that request, or release {hold.id} first"
        return Declined(Obstacle.KEY, Refusal(what, "key", fix))

    def flaw(self, wish: Wish) -> Declined | None:
        """What makes a wish impossible whatever is free: time, pods, key, number of holds; O(1)."""
        limits, pods = self._limits, wish.request.pods
        if not 0 < wish.hold_s <= limits.hold_s:
            what = f"hold_s is {wish.hold_s:g}"
            return _beyond(what, "hold_s", f"give seconds, more than 0, at most {limits.hold_s:g}")
        if wish.key is not None and not 0 < len(wish.key) <= MAX_KEY_CHARS:
            what = f"the key has {len(wish.key)} characters"
            return _beyond(what, "key", f"give 1 to {MAX_KEY_CHARS}")
        if wish.key is not None and not wish.key.isprintable():  # no half of a code point either
            what = "the key has characters that cannot be shown"
            return _beyond(what, "key", "give letters, digits and punctuation")
        if pods > limits.pods:
            what = f"a hold of {pods} pods"
            return _beyond(what, "pods", f"hold at most {limits.pods} pods at once")
        if len(self._holds) >= limits.holds:
            what = f"there are {len(self._holds)} holds already"
            fix = "release one, or commit less and release sooner"
            return Declined(Obstacle.FULL, Refusal(what, "holds", fix))
        return None

    def reserve(self, wish: Wish, plan: Plan, grant: Grant, now_s: float) -> Hold | Declined:
        """The plan booked under the hold's id until `now_s + wish.hold_s`, all of it or nothing.

        The hold that the key has already, where there is one. Declined when the wish is beyond the
        limits, or a node of the plan is gone, closed, or has too few free GPUs by now. O(nodes of
        the plan).
        """
        answer = self.known(wish) or self.flaw(wish) or self._no_room(plan)
        if answer is not None:
            return answer
        hold = Hold(
            id=grant.id,
            wish=wish,
            mode=plan.mode,
            gpu_type=plan.gpu_type,
            groups=plan.groups,
            generation=grant.generation,
            created_s=now_s,
            deadline_s=now_s + wish.hold_s,
        )
        self._add(hold)
        return hold

    def commit(self, hold_id: HoldId, now_s: float) -> Hold | Ended | None:
        """The hold, from now on without a time limit; twice is once. Too late: how it ended."""
        self.expire(now_s)
        hold = self._holds.get(hold_id)
        if hold is None:
            return self._ends.get(hold_id)
        if hold.deadline_s is None:
            return hold
        kept = replace(hold, deadline_s=None)
        self._holds[hold_id] = kept
        self.version += 1
        return kept

    def release(self, hold_id: HoldId, now_s: float) -> Hold | Ended | None:
        """The hold that was given back, committed or not; or how it had ended before."""
        self.expire(now_s)
        hold = self._holds.get(hold_id)
        if hold is None:
            return self._ends.get(hold_id)
        self._end(hold, "released", now_s)
        return hold

    def expire(self, now_s: float) -> tuple[Hold, ...]:
        """The holds whose time is over, given back; O(log holds) each."""
        gone: list[Hold] = []
        while self._deadlines and self._deadlines[0][0] <= now_s:
            deadline_s, hold_id = heappop(self._deadlines)
            hold = self._holds.get(hold_id)
            if hold is not None and hold.deadline_s == deadline_s:
                self._end(hold, "expired", deadline_s)
                gone.append(hold)
        return tuple(gone)

    def memory(self, ahead_s: float) -> HoldsMemory:
        """What a state file keeps; `ahead_s` is Unix time minus the time of this clock."""
        return HoldsMemory(FORMAT, tuple(_moved(hold, ahead_s) for hold in self))

    def restore(self, memory: HoldsMemory, now_s: float, ahead_s: float) -> tuple[Hold, ...]:
        """Takes up kept holds; those whose time is over meanwhile, which are dropped.

        What they booked is booked again, also on nodes that are not there (yet). A clock that was
        set back prolongs no hold beyond the limit.
        """
        dropped: list[Hold] = []
        latest_s = now_s + self._limits.hold_s
        for kept in memory.holds:
            hold = _moved(kept, -ahead_s)
            if hold.deadline_s is not None:
                if hold.deadline_s <= now_s:
                    dropped.append(hold)
                    continue
                hold = replace(hold, deadline_s=min(hold.deadline_s, latest_s))
            self._add(hold)
        return tuple(dropped)

    def recount(self) -> tuple[Difference, ...]:
        """The nodes on which something else is booked for a hold than it has; it is mended."""
        found: list[Difference] = []
        bookings = self._capacity.bookings()
        for owner in [*self._holds, *(owner for owner in bookings if owner in self._ends)]:
            hold = self._holds.get(HoldId(owner))
            meant = hold.gpus if hold is not None else {}
            kept = bookings.get(owner, {})
            nodes = [node for node in {**meant, **kept} if meant.get(node) != kept.get(node)]
            found += [Difference(node, meant.get(node, 0), kept.get(node, 0)) for node in nodes]
            if nodes and meant:
                self._capacity.book(owner, meant)
            elif nodes:
                self._capacity.release(owner)
        return tuple(found)

    def _no_room(self, plan: Plan) -> Declined | None:
        pods = (group.pods for group in plan.groups)
        for node, gpus in booked(pods, plan.request.gpus_per_pod).items():
            what = shortage(self._capacity, node, gpus)
            if what:
                return Declined(Obstacle.ROOM, Refusal(what, "groups", "place the job again"))
        return None

    def _add(self, hold: Hold) -> None:
        self._capacity.book(hold.id, hold.gpus)
        self._holds[hold.id] = hold
        if hold.wish.key is not None:
            self._keys[hold.wish.key] = hold.id
        if hold.deadline_s is not None:
            heappush(self._deadlines, (hold.deadline_s, hold.id))
        self.version += 1

    def _end(self, hold: Hold, how: str, at_s: float) -> None:
        self._capacity.release(hold.id)
        del self._holds[hold.id]
        if hold.wish.key is not None:
            del self._keys[hold.wish.key]
        self._ends[hold.id] = Ended(hold.id, how, at_s)
        self._ended.append(hold.id)
        if len(self._ended) > _REMEMBERED_ENDS:
            self._ends.pop(self._ended.popleft(), None)
        self.version += 1


def booked(groups: Iterator[Pods], gpus_per_pod: int) -> dict[NodeName, int]:
    """GPUs by node that these pods take."""
    gpus: dict[NodeName, int] = {}
    for pods in groups:
        for node, number in pods:
            gpus[node] = gpus.get(node, 0) + number * gpus_per_pod
    return gpus


def shortage(capacity: Capacity, node: NodeName, gpus: int) -> str:
    """Why a node cannot take so many GPUs more; empty if it can. O(1)."""
    host = capacity.host(node)
    if host is None:
        return f"node {node} is not there"
    if not host.open:
        return f"node {node} is {'cordoned' if host.ready else 'not ready'}"
    free = capacity.free(node)
    return f"node {node} has {free} free GPUs where {gpus} are needed" if free < gpus else ""


def lost(capacity: Capacity, hold: Hold) -> Mapping[NodeName, str]:
    """The nodes of a hold that are gone, closed or too small by now, with why; O(nodes of it)."""
    told: dict[NodeName, str] = {}
    for node, gpus in hold.gpus.items():
        host = capacity.host(node)
        if host is not None and host.open and capacity.used(node) > host.gpus:
            told[node] = f"{capacity.used(node)} GPUs are booked where {host.gpus} are left"
        elif (host is None or not host.open) and (why := shortage(capacity, node, gpus)):
            told[node] = why
    return told


def _moved(hold: Hold, by_s: float) -> Hold:
    deadline_s = hold.deadline_s
    return replace(
        hold,
        created_s=hold.created_s + by_s,
        deadline_s=None if deadline_s is None else deadline_s + by_s,
    )


def _beyond(what: str, where: str, fix: str) -> Declined:
    return Declined(Obstacle.TERMS, Refusal(what, where, fix))


def _difference(first: Wish, now: Wish) -> str:
    """`pods 8, now 16; hold_s 60, now 30`."""
    pairs = (
        ("pods", first.request.pods, now.request.pods),
        ("gpus_per_pod", first.request.gpus_per_pod, now.request.gpus_per_pod),
        ("group_size", first.request.group_size, now.request.group_size),
        ("mode", first.request.mode.value, now.request.mode.value),
        ("within", first.request.within, now.request.within),
        ("hold_s", f"{first.hold_s:g}", f"{now.hold_s:g}"),
    )
    told = [f"{name} {one}, now {other}" for name, one, other in pairs if one != other]
    return "; ".join(told) or "its filters differ"
