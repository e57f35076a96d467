"""The events of the machine. Each states the complete facts about its subject at that time."""

from collections.abc import Mapping
from dataclasses import dataclass

from topo.gangs.machine.gang import Gang, GangId
from topo.model.ids import NodeName
from topo.model.isolation import ObjectError
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import PlacementMode


@dataclass(frozen=True, slots=True)
class Observed:
    """The gang as it is in the cluster now. Of several observations in one step the last counts."""

    gang: Gang


@dataclass(frozen=True, slots=True)
class GangUnreadable:
    """A step for the gang outside of the machine raised an error: its reading, or an answer.

    `gang` is as much of it as could be read: its pods, at least.
    """

    gang: Gang
    error: ObjectError


@dataclass(frozen=True, slots=True)
class Vanished:
    """The job is gone; these labels and holds remain. Repeated until none remains.

    Also sent for the remains of a gang that an earlier leader managed and this leader never saw.
    """

    id: GangId
    labelled: tuple[NodeName, ...] = ()
    holds: tuple[HoldId, ...] = ()


@dataclass(frozen=True, slots=True)
class Leading:
    """All gangs were observed: the machine decides from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The answer to `Place` number `ask`: a node for each wanted pod, booked under `hold`.

    `mode` is the mode that was used: `preferred` where a group had to be split. `inside` names the
    group that all nodes share, of the kind that the job must be within. `evicts` names the pods of
    lower priority that have to be evicted first; if there are any, nothing is booked and `hold` is
    only a name.
    """

    id: GangId
    ask: int
    nodes: tuple[NodeName, ...]
    hold: HoldId
    mode: PlacementMode
    generation: int
    certified: bool
    inside: str = ""
    evicts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The answer to `Place` number `ask` if there is no room: the reason, with numbers.

    `reservation`, if requested, are the nodes on which the job fits once they are free. `behind`:
    the job fits now, but on nodes that are kept for another gang. `never`: the job would not fit on
    an empty cluster. `ungrouped`: no groups of nodes are known.
    """

    id: GangId
    ask: int
    text: str
    shortfall: Mapping[str, int]
    reservation: tuple[NodeName, ...] = ()
    behind: bool = False
    never: bool = False
    ungrouped: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer to `Check` number `ask`: planned nodes that cannot take their pods, with why.

    `blocked` says why the gang may not start although all its nodes are free (its queue is full).
    `split` are required groups in several domains. `apart` are groups outside the tree group that
    the whole job has to share. `settled` are the groups of `split` and `apart` for which running
    pods alone are the cause, so that moving other pods does not help.
    """

    id: GangId
    ask: int
    lost: tuple[tuple[NodeName, str], ...] = ()
    blocked: str = ""
    split: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()
    settled: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CapacityChanged:
    """The free capacity of these nodes changed, or whether they may be used.

    `requeue_all`: some nodes have more room than before, so refused gangs may fit. `regrouped` are
    nodes that moved to other groups, so gangs on them may be split.
    """

    nodes: tuple[NodeName, ...]
    requeue_all: bool
    regrouped: tuple[NodeName, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """A write was refused: of a pod in `version` (a conflict), or of a node's label.

    `subject` is the uid of the pod or the name of the node. The write is tried again once the
    subject has changed, or after a while.
    """

    id: GangId
    subject: str
    why: str
    version: str = ""


Event = (
    Observed
    | GangUnreadable
    | Vanished
    | Leading
    | Planned
    | Refused
    | Checked
    | CapacityChanged
    | WriteRefused
)
