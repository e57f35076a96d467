"""The events and the changes of the bookings machine."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from topo.model.ids import NodeName
from topo.placement.booking.holds import Ended, Gpus, Hold, HoldId, HoldRefused, HoldRequest
from topo.placement.job.plan import Plan, PlannedGroup
from topo.placement.job.request import PlacementMode


class PodPhase(StrEnum):
    """The phase of a pod, in order; in each phase the pod takes the GPUs of its node."""

    NOMINATED = "nominated"
    BOUND = "bound"
    TERMINATING = "terminating"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that asks for `gpus` whole GPUs or for `shared` cards, and has a node.

    `uid` is its identity. `hold` is the hold made for the pod, None if there never was one.
    `shared` are (resource, number) pairs, each number in the resource's own unit.
    """

    uid: str
    namespace: str
    name: str
    node: NodeName
    gpus: int
    hold: HoldId | None = None
    shared: tuple[tuple[str, int], ...] = ()

    @property
    def owner(self) -> str:
        """The owner of the pod's bookings: a new pod may reuse a name, so it has the uid."""
        return f"pod/{self.namespace}/{self.name}/{self.uid}"


def job_name(namespace: str, name: str, uid: str) -> str:
    """Return what a job whose pods end together is called among the owners of GPUs."""
    return f"job/{namespace}/{name}/{uid}"


def owner_in_words(owner: str) -> str:
    """Return an owner as text for people: for a pod or a job, without the uid; O(1)."""
    kind, *named = owner.split("/")
    if kind in {"pod", "job"} and len(named) == len(("namespace", "name", "uid")):
        return f"{kind} {named[0]}/{named[1]}"
    return owner


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldAsked:
    """A request to hold a placement; `generation` is that of the forest that was used.

    `without`: nodes that the placement must not use even if they are free, because they are kept
    for another job. `slack` is as of `Hold`.
    """

    id: HoldId
    wish: HoldRequest
    generation: int
    mode: PlacementMode
    gpu_type: str
    groups: tuple[PlannedGroup, ...]
    without: tuple[NodeName, ...] = ()
    slack: Gpus = ()
    kind: Literal["hold-asked"] = "hold-asked"

    @classmethod
    def of(cls, wish: HoldRequest, plan: Plan, hold_id: HoldId, generation: int) -> "HoldAsked":
        """Return the event that holds a plan."""
        return cls(
            id=hold_id,
            wish=wish,
            generation=generation,
            mode=plan.mode,
            gpu_type=plan.gpu_type,
            groups=plan.groups,
        )


@dataclass(frozen=True, slots=True)
class HoldCommitted:
    """A request to keep the hold until it is released."""

    id: HoldId
    kind: Literal["hold-committed"] = "hold-committed"


@dataclass(frozen=True, slots=True)
class HoldReleased:
    """A request to release the hold."""

    id: HoldId
    kind: Literal["hold-released"] = "hold-released"


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod is nominated to its node, bound to it, or terminating there."""

    pod: Pod
    phase: PodPhase
    kind: Literal["pod-seen"] = "pod-seen"


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod ended or lost its nomination, so it takes nothing any more."""

    uid: str
    kind: Literal["pod-gone"] = "pod-gone"


Event = HoldAsked | HoldCommitted | HoldReleased | PodSeen | PodGone


class What(StrEnum):
    """What happened to a hold."""

    RESERVED = "reserved"
    REPEATED = "repeated"
    COMMITTED = "committed"
    RELEASED = "released"
    EXPIRED = "expired"
    BOUND = "bound"
    """Pods take all of it, so it has ended."""
    STRAYED = "strayed"
    """Pods of it are, or are nominated, where it did not book: `elsewhere`."""


@dataclass(frozen=True, slots=True)
class HoldChange:
    """A change of a hold; `hold` is its state afterwards, or the last one if it ended."""

    what: What
    hold: Hold
    elsewhere: Gpus = ()


@dataclass(frozen=True, slots=True)
class Absent:
    """The hold to commit or release does not exist; says how it ended, if it ever existed."""

    id: HoldId
    ended: Ended | None


@dataclass(frozen=True, slots=True)
class PodChange:
    """A pod appeared or entered a `phase`, or is gone (None)."""

    pod: Pod
    phase: PodPhase | None


Change = HoldChange | HoldRefused | Absent | PodChange
