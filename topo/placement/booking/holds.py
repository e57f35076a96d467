"""Holds: placements that are reserved for a time, or committed.

Times are seconds on the owner's monotonic clock. Only `HoldsMemory` has Unix time, with one moment
that is known on both clocks.

The reasons to refuse a hold: a limit, a key used for another request, no room any more.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.limits import MAX_KEY_CHARS, MAX_NAMESPACE_CHARS, NAMESPACE
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.job.plan import PlannedGroup, Pods
from topo.placement.job.request import PlacementMode, Request

HoldId = NewType("HoldId", str)

Gpus = tuple[tuple[NodeName, int], ...]
"""GPUs by node."""

FORMAT = 1
_NAMESPACE = re.compile(NAMESPACE, re.ASCII)


class HoldState(StrEnum):
    """Held until its deadline, or committed: kept until it is released."""

    HELD = "held"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """A placement to be held for `hold_s` seconds.

    A second request with the same `key` returns the same hold, as long as that hold exists.
    `namespace` is the one of Kubernetes whose pods take shares of the hold by naming it; empty:
    none may.
    """

    request: Request
    hold_s: float
    key: str | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A reserved placement; without a deadline it is committed.

    Each place has room for the largest pod of the job. `slack` are GPUs of places whose pods ask
    for less: the hold does not book them.
    """

    id: HoldId
    wish: HoldRequest
    mode: PlacementMode
    gpu_type: str
    groups: tuple[PlannedGroup, ...]
    generation: int
    created_s: float
    deadline_s: float | None
    slack: Gpus = ()

    @property
    def state(self) -> HoldState:
        """Whether the hold is committed or still has a deadline."""
        return HoldState.COMMITTED if self.deadline_s is None else HoldState.HELD

    def is_expired(self, now_s: float) -> bool:
        """Return whether the deadline has passed; never for a committed hold."""
        return self.deadline_s is not None and self.deadline_s <= now_s

    @property
    def places(self) -> Counter[NodeName]:
        """For how many pods the hold books GPUs, by node; O(its nodes)."""
        found = Counter[NodeName]()
        for group in self.groups:
            for node, pods in group.pods:
                found[node] += pods
        return found

    @property
    def gpus(self) -> dict[NodeName, int]:
        """The GPUs that the hold books, by node."""
        return held_gpus(self.groups, self.wish.request.gpus_per_pod, self.slack)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits: how many holds may exist, how long each may wait, how many pods each may have.

    A hold waits at most a day to be committed: who decides later asks again, for the tree may be
    another one by then. `pods` bounds the memory of one hold: ten times the pods of the largest
    known job, and as many GPUs as the largest tested cluster has.
    """

    holds: int = 1000
    hold_s: float = 86_400.0
    pods: int = 100_000


class Obstacle(StrEnum):
    """Why a hold was refused."""

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
    """A hold was refused, and why."""

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
    """One moment in seconds on two clocks: the monotonic clock of a boot, and Unix time.

    Nobody can set the monotonic clock, but it restarts with each boot; `boot` is empty if unknown.
    """

    boot: str
    clock_s: float
    unix_s: float

    def since(self, earlier: "ClockReading") -> float:
        """Return the seconds since an earlier reading, at least 0.

        Unix time is used only if the machine was booted in between.
        """
        if self.boot and self.boot == earlier.boot and self.clock_s >= earlier.clock_s:
            return self.clock_s - earlier.clock_s
        return max(0.0, self.unix_s - earlier.unix_s)


@dataclass(frozen=True, slots=True)
class HoldsMemory:
    """The content of a state file: all holds, with their times as Unix time in seconds.

    `saved` is the moment of writing; it is absent in documents of earlier versions.
    """

    format: int
    holds: tuple[Hold, ...]
    saved: ClockReading | None = None


def booked(groups: Iterable[Pods], gpus_per_pod: int) -> dict[NodeName, int]:
    """Return the GPUs that these pods take, by node."""
    gpus: dict[NodeName, int] = {}
    for pods in groups:
        for node, number in pods:
            gpus[node] = gpus.get(node, 0) + number * gpus_per_pod
    return gpus


def held_gpus(
    groups: Iterable[PlannedGroup], gpus_per_pod: int, slack: Gpus
) -> dict[NodeName, int]:
    """Return the GPUs that a hold books, by node; a node of which it books none is left out."""
    gpus = booked((group.pods for group in groups), gpus_per_pod)
    if not slack:
        return gpus
    less = dict(slack)
    left = {node: number - less.get(node, 0) for node, number in gpus.items()}
    return {node: number for node, number in left.items() if number > 0}


def shortage(capacity: CapacityView, node: NodeName, gpus: int, *, given_back: int = 0) -> str:
    """Return why a node cannot take so many more GPUs, empty if it can; O(1).

    `given_back`: GPUs of the node that will be released first.
    """
    host = capacity.host(node)
    if host is None:
        return f"node {node} is not there"
    if host.quarantine is not None:
        return f"node {node} is in quarantine: {host.quarantine}"
    if not host.is_open:
        return f"node {node} is {'cordoned' if host.ready else 'not ready'}"
    free = max(0, host.gpus - capacity.used(node) + given_back)
    return f"node {node} has {free} free GPUs where {gpus} are needed" if free < gpus else ""


def unusable_nodes(capacity: CapacityView, hold: Hold) -> Mapping[NodeName, str]:
    """Return the nodes of a hold that are gone, closed or too small, and why; O(its nodes)."""
    found: dict[NodeName, str] = {}
    booked_gpus = hold.gpus
    for node in hold.places:
        gpus = booked_gpus.get(node, 0)
        host = capacity.host(node)
        if host is not None and host.is_open and capacity.used(node) > host.gpus:
            found[node] = f"{capacity.used(node)} GPUs are booked where {host.gpus} are left"
        elif (host is None or not host.is_open) and (why := shortage(capacity, node, gpus)):
            found[node] = why
    return found


def difference(first: HoldRequest, now: HoldRequest) -> str:
    """Return how two requests with one key differ: `pods 8, now 16; hold_s 60, now 30`."""
    pairs = (
        ("pods", first.request.pods, now.request.pods),
        ("gpus_per_pod", first.request.gpus_per_pod, now.request.gpus_per_pod),
        ("group_size", first.request.group_size, now.request.group_size),
        ("mode", first.request.mode.value, now.request.mode.value),
        ("within", first.request.within, now.request.within),
        ("hold_s", f"{first.hold_s:g}", f"{now.hold_s:g}"),
        ("namespace", repr(first.namespace), repr(now.namespace)),
    )
    found = [f"{name} {one}, now {other}" for name, one, other in pairs if one != other]
    return "; ".join(found) or "its filters differ"


def beyond_limits(wish: HoldRequest, limits: Limits, holds: int) -> HoldRefused | None:
    """Refuse a request beyond the limits: time, pods, key, namespace, number of holds; O(1)."""
    pods = wish.request.pods
    if not 0 < wish.hold_s <= limits.hold_s:
        what = f"hold_s is {wish.hold_s:g}"
        return _beyond(what, "hold_s", f"give seconds, more than 0, at most {limits.hold_s:g}")
    if (refused := _wrong_names(wish)) is not None:
        return refused
    if pods > limits.pods:
        what = f"a hold of {pods} pods"
        return _beyond(what, "pods", f"hold at most {limits.pods} pods at once")
    if holds >= limits.holds:
        what = f"there are {holds} holds already"
        fix = "release one, or commit less and release sooner"
        return HoldRefused(Obstacle.FULL, Refusal(what, "holds", fix))
    return None


def _wrong_names(wish: HoldRequest) -> HoldRefused | None:
    """Refuse a key or a namespace that is none."""
    if wish.key is not None and not 0 < len(wish.key) <= MAX_KEY_CHARS:
        what = f"the key has {len(wish.key)} characters"
        return _beyond(what, "key", f"give 1 to {MAX_KEY_CHARS}")
    if wish.key is not None and not wish.key.isprintable():  # no half of a code point either
        what = "the key has characters that cannot be shown"
        return _beyond(what, "key", "give letters, digits and punctuation")
    if wish.namespace and not is_namespace(wish.namespace):
        what = f"namespace is {wish.namespace[:MAX_NAMESPACE_CHARS]!r}"
        fix = f"give lower case letters, digits and '-', at most {MAX_NAMESPACE_CHARS}"
        return _beyond(what, "namespace", fix)
    return None


def is_namespace(text: str) -> bool:
    """Return whether a namespace of Kubernetes may have this name."""
    return len(text) <= MAX_NAMESPACE_CHARS and _NAMESPACE.fullmatch(text) is not None


def of_another(hold: Hold, wish: HoldRequest) -> HoldRefused:
    """Refuse a request whose key belongs to a hold for another request."""
    what = f"the key {wish.key!r} belongs to hold {hold.id} of another request: "
    what += difference(hold.wish, wish)
    fix = f"use a new key, or repeat that request, or release {hold.id} first"
    return HoldRefused(Obstacle.KEY, Refusal(what, "key", fix))


def no_longer_fits(gpus: Mapping[NodeName, int], capacity: CapacityView) -> HoldRefused | None:
    """Refuse a plan if one of its nodes is gone, closed or too full; O(its nodes)."""
    for node in capacity.nodes_short_of(gpus):
        fix = "place the job again"
        what = shortage(capacity, node, gpus[node])
        return HoldRefused(Obstacle.NO_LONGER_FITS, Refusal(what, "groups", fix))
    return None


def _beyond(what: str, where: str, fix: str) -> HoldRefused:
    return HoldRefused(Obstacle.TERMS, Refusal(what, where, fix))
