"""What happens to gangs: the events of the machine, each the whole truth of its subject then."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from topo.gangs.machine.gang import Gang, GangId
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import PlacementMode


@dataclass(frozen=True, slots=True)
class Observed:
    """The gang as it is in the cluster now; of several at once the last is enough."""

    gang: Gang
    kind: Literal["observed"] = "observed"


@dataclass(frozen=True, slots=True)
class Vanished:
    """The job is gone; the labels and holds that are left of it, told until none are.

    Also told of what an earlier leader left behind, for a gang that this one never saw.
    """

    id: GangId
    labelled: tuple[NodeName, ...] = ()
    holds: tuple[HoldId, ...] = ()
    kind: Literal["vanished"] = "vanished"


@dataclass(frozen=True, slots=True)
class Leading:
    """All gangs there are have been told: from here on decisions are made."""

    kind: Literal["leading"] = "leading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The answer to `Place` number `ask`: a node for each pod of `wanted`, booked under `hold`.

    `mode` is the one that was used: `preferred` where a group had to be split. `evicts`: the pods
    of lower priority that have to go first, in words; nothing is booked then, and `hold` is a name.
    """

    id: GangId
    ask: int
    nodes: tuple[NodeName, ...]
    hold: HoldId
    mode: PlacementMode
    generation: int
    certified: bool
    evicts: str = ""
    kind: Literal["planned"] = "planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The answer to `Place` number `ask` where there is no room: why, with its numbers.

    `reservation`, where it was asked for: the nodes on which the job fits once they are free.
    `behind`: it fits now, but for the nodes that are kept for another gang. `never`: it would not
    fit if all were free, `ungrouped`: nor could it, since nobody knows a group of nodes.
    """

    id: GangId
    ask: int
    text: str
    shortfall: Mapping[str, int]
    reservation: tuple[NodeName, ...] = ()
    behind: bool = False
    never: bool = False
    ungrouped: bool = False
    kind: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer to `Check` number `ask`: planned nodes that cannot take their pods, with why.

    `blocked`: why the gang may not start although all its nodes are free (its queue is full).
    `split`: the groups that are in several domains although their job requires one. `apart`: those
    that are not in the group of the tree that all of the job is to share. `settled`: those of both
    that are so by their pods that run, wherever the others go.
    """

    id: GangId
    ask: int
    lost: tuple[tuple[NodeName, str], ...] = ()
    blocked: str = ""
    split: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()
    settled: tuple[int, ...] = ()
    kind: Literal["checked"] = "checked"


@dataclass(frozen=True, slots=True)
class CapacityChanged:
    """What is free on these nodes changed, or whether they may be used.

    `grew`: on some of them there is more than before, so what was refused may fit. `regrouped`: of
    them those that stand in other groups than before, so whole groups on them may be split.
    """

    nodes: tuple[NodeName, ...]
    requeue_all: bool
    regrouped: tuple[NodeName, ...] = ()
    kind: Literal["capacity-changed"] = "capacity-changed"


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """A write was refused for good: of a pod in `version` (a conflict, say), or of a node's label.

    `subject` is the pod's uid or the node's name. It is tried again when the subject changed, or
    after a while.
    """

    id: GangId
    subject: str
    why: str
    version: str = ""
    kind: Literal["write-refused"] = "write-refused"


Event = Observed | Vanished | Leading | Planned | Refused | Checked | CapacityChanged | WriteRefused
