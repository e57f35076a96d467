"""What is to be done for gangs: the instructions of the machine.

Whatever was done shows in a later `Observed`; `Place` and `Check` are answered by events with the
same number. An instruction is given once, and again only after `WriteRefused` or when its time is
over.
"""

from dataclasses import dataclass
from typing import Literal

from topo.gangs.machine.gang import GangId, Note, PodUid, Selection
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import Request


@dataclass(frozen=True, slots=True)
class NamedPod:
    """A pod that an instruction is about."""

    uid: PodUid
    name: str
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Find nodes for the pods of `wanted`, in rank order, and hold them: `Planned` or `Refused`.

    `kept` are the gang's pods that stay where they are, as (rank, node): a wanted pod of a group
    that has some goes to that group's domain. What the wanted pods take already, and
    the holds of `replaced`, count as free, and are let go in the step in which the new hold is
    made; on a refusal they stay. `without`: nodes kept for another gang. `reserve`: on a refusal
    name the nodes on which the job would fit first.

    `over`: where there is no room, pods of a lower priority than this may be planned over, of a
    job that has nobody bound, but not on the nodes of `spoken_for`, where pods of other gangs are
    planned; nothing is held then. `mixed`: its scheduler may exchange the gang's
    pods among the nodes that it clears, so that all of them have to be in one domain.
    """

    id: GangId
    ask: int
    request: Request
    wanted: tuple[NamedPod, ...]
    kept: tuple[tuple[int, NodeName], ...] = ()
    replaced: tuple[HoldId, ...] = ()
    without: tuple[NodeName, ...] = ()
    reserve: bool = False
    over: int | None = None
    spoken_for: tuple[NodeName, ...] = ()
    mixed: bool = False
    kind: Literal["place"] = "place"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Look whether each pod's node can still take it, and the queue the gang: `Checked`.

    `waiting` are the pods that are not bound, by node; what they and `holds` take is their own.
    `bound` are the others, by rank. `over`: what pods of a lower priority have is no matter.
    """

    id: GangId
    ask: int
    request: Request
    waiting: tuple[tuple[NamedPod, NodeName], ...]
    bound: tuple[tuple[int, NodeName], ...]
    holds: tuple[HoldId, ...]
    over: int | None = None
    kind: Literal["check"] = "check"


@dataclass(frozen=True, slots=True)
class Release:
    """Give a hold back; nothing is wrong where it has ended."""

    id: GangId
    hold: HoldId
    kind: Literal["release"] = "release"


@dataclass(frozen=True, slots=True)
class LabelNodes:
    """Put the gang's label with the value `selection` on nodes, whatever value they have."""

    id: GangId
    nodes: tuple[tuple[NodeName, Selection], ...]
    kind: Literal["label-nodes"] = "label-nodes"


@dataclass(frozen=True, slots=True)
class UnlabelNodes:
    """Take the gang's label from nodes."""

    id: GangId
    nodes: tuple[NodeName, ...]
    kind: Literal["unlabel-nodes"] = "unlabel-nodes"


@dataclass(frozen=True, slots=True)
class Nominate:
    """In one PATCH of a pod's status in `version`: the nomination to `node`, and the note.

    The hold is in the note, so that nobody sees the nomination without it and counts both. Without
    a node no nomination is to be left.
    """

    id: GangId
    pod: NamedPod
    version: str
    note: Note
    node: NodeName | None
    kind: Literal["nominate"] = "nominate"


@dataclass(frozen=True, slots=True)
class Open:
    """In one PATCH of `version`: our gate off, the selector `selection` on, the note as it is."""

    id: GangId
    pod: NamedPod
    version: str
    selection: Selection
    note: Note
    kind: Literal["open"] = "open"


@dataclass(frozen=True, slots=True)
class OpenUnplanned:
    """Take our gate off a pod in `version` and leave the rest to its scheduler; `why` in words."""

    id: GangId
    pod: NamedPod
    version: str
    why: str
    kind: Literal["open-unplanned"] = "open-unplanned"


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """Report the state of the gang and why it is in it; given when either changes."""

    id: GangId
    state: GangState
    text: str
    kind: Literal["report-status"] = "report-status"


Instruction = (
    Place
    | Check
    | Release
    | LabelNodes
    | UnlabelNodes
    | Nominate
    | Open
    | OpenUnplanned
    | ReportStatus
)
