"""What a hold is: a placement that is reserved for a time, kept, or given back.

Times are seconds on the owner's monotonic clock; only `HoldsMemory` has Unix time, and which moment
it was on both clocks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.job.plan import PlannedGroup, Pods
from topo.placement.job.request import PlacementMode, Request

HoldId = NewType("HoldId", str)

FORMAT = 1


class HoldState(StrEnum):
    """Held until its deadline, or committed: kept until it is released."""

    HELD = "held"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """A placement to be held for `hold_s` seconds.

    Whoever asks again with the same `key` means the same hold, as long as there is one.
    """

    request: Request
    hold_s: float
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A placement that is reserved; without a deadline it is committed."""

    id: HoldId
    wish: HoldRequest
    mode: PlacementMode
    gpu_type: str
    groups: tuple[PlannedGroup, ...]
    generation: int
    created_s: float
    deadline_s: float | None

    @property
    def state(self) -> HoldState:
        """Whether it still has a time limit."""
        return HoldState.COMMITTED if self.deadline_s is None else HoldState.HELD

    def is_expired(self, now_s: float) -> bool:
        """Return whether its time is over; never for a committed hold."""
        return self.deadline_s is not None and self.deadline_s <= now_s

    @property
    def gpus(self) -> dict[NodeName, int]:
        """The GPUs that it books, by node."""
        return booked((group.pods for group in self.groups), self.wish.request.gpus_per_pod)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many holds there may be at once, how long each may wait, how many pods each may have.

    `pods` bounds the memory of one hold: ten times the pods of the largest job known, and as many
    GPUs as the largest cluster that is tested has.
    """

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
    NO_LONGER_FITS = "room"
    """The plan does not fit any more."""
    DISK = "disk"
    """It could not be written down, so a restart might lose it."""


@dataclass(frozen=True, slots=True)
class HoldRefused:
    """No hold, and why."""

    obstacle: Obstacle
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Ended:
    """A hold that has ended: `released`, `expired`, or `bound` if pods have all of its GPUs."""

    id: HoldId
    how: str
    at_s: float


@dataclass(frozen=True, slots=True)
class ClockReading:
    """One moment in seconds on two clocks: the monotonic one of a boot, and Unix time.

    Nobody can set the first, but it begins anew with each boot; `boot` is empty where that is not
    known.
    """

    boot: str
    clock_s: float
    unix_s: float

    def since(self, earlier: "ClockReading") -> float:
        """Return the seconds since an earlier reading, at least 0.

        They are counted by Unix time only if the machine was booted in between.
        """
        if self.boot and self.boot == earlier.boot and self.clock_s >= earlier.clock_s:
            return self.clock_s - earlier.clock_s
        return max(0.0, self.unix_s - earlier.unix_s)


@dataclass(frozen=True, slots=True)
class HoldsMemory:
    """What a state file keeps: all holds, with their times as Unix time in seconds.

    `saved` is the moment of which it tells; absent in documents of earlier versions.
    """

    format: int
    holds: tuple[Hold, ...]
    saved: ClockReading | None = None


def booked(groups: Iterable[Pods], gpus_per_pod: int) -> dict[NodeName, int]:
    """Return the GPUs that pods take, by node."""
    gpus: dict[NodeName, int] = {}
    for pods in groups:
        for node, number in pods:
            gpus[node] = gpus.get(node, 0) + number * gpus_per_pod
    return gpus


def shortage(capacity: CapacityView, node: NodeName, gpus: int, *, given_back: int = 0) -> str:
    """Return why a node cannot take so many more GPUs, or empty if it can; O(1).

    `given_back`: GPUs of the node that are released first.
    """
    host = capacity.host(node)
    if host is None:
        return f"node {node} is not there"
    if not host.open:
        return f"node {node} is {'cordoned' if host.ready else 'not ready'}"
    free = max(0, host.gpus - capacity.used(node) + given_back)
    return f"node {node} has {free} free GPUs where {gpus} are needed" if free < gpus else ""


def unusable_nodes(capacity: CapacityView, hold: Hold) -> Mapping[NodeName, str]:
    """Return the nodes of a hold that are gone, closed or too small, and why; O(its nodes)."""
    found: dict[NodeName, str] = {}
    for node, gpus in hold.gpus.items():
        host = capacity.host(node)
        if host is not None and host.open and capacity.used(node) > host.gpus:
            found[node] = f"{capacity.used(node)} GPUs are booked where {host.gpus} are left"
        elif (host is None or not host.open) and (why := shortage(capacity, node, gpus)):
            found[node] = why
    return found


def difference(first: HoldRequest, now: HoldRequest) -> str:
    """Return what two wishes of one key differ in: `pods 8, now 16; hold_s 60, now 30`."""
    pairs = (
        ("pods", first.request.pods, now.request.pods),
        ("gpus_per_pod", first.request.gpus_per_pod, now.request.gpus_per_pod),
        ("group_size", first.request.group_size, now.request.group_size),
        ("mode", first.request.mode.value, now.request.mode.value),
        ("within", first.request.within, now.request.within),
        ("hold_s", f"{first.hold_s:g}", f"{now.hold_s:g}"),
    )
    found = [f"{name} {one}, now {other}" for name, one, other in pairs if one != other]
    return "; ".join(found) or "its filters differ"
