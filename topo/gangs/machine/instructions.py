"""The instructions of the machine: what its owner has to do for gangs.

The effect of an instruction shows in a later `Observed`; `Place` and `Check` are answered by events
with the same number. An instruction is issued once, and again only after `WriteRefused` or when it
is late.
"""

from dataclasses import dataclass
from typing import NamedTuple

from topo.gangs.machine.gang import GangId, Member, Note, Selection
from topo.model.conditions.gang_states import GangState
from topo.model.errors import require
from topo.model.ids import NodeName
from topo.model.pod_requests import Amounts
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import Request


class Occupied(NamedTuple):
    """A node with a pod of the kin of another job; `label`: it keeps others out of its domain."""

    node: NodeName
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Find nodes for the pods of `wanted`, in rank order, and hold them: `Planned` or `Refused`.

    Each of these pods has a rank of its own below `request.pods`, so that no group of them is
    larger than a group of the job.
    `kept` are the gang's pods that stay where they are, as (rank, node): a wanted pod of a group
    with such pods goes to that group's domain. GPUs that the wanted pods already take, and the
    holds of `replaced`, count as free and are released together with the new booking; on a refusal
    they stay. `sizes` are of groups that have fewer pods than the request gives them, as (group,
    pods). Nodes that a request for capacity booked among them are tried first. `held` are kept
    pods that book nothing themselves: the new hold books their nodes.
    `without` are nodes kept for another gang. `reserve`: a refusal names the nodes on
    which the job would fit first.

    `takes` is what each pod takes of its node beside GPUs. `fewest_gpus`: the least that one takes
    where pods differ, who all count as `request.gpus_per_pod`; else 0.

    `occupied`: where pods of its kin are, which its owner adds where the request has a kin.

    `over`: without room, the gang may be planned over pods of a lower priority than this, if none
    of its pods is bound, but not on the nodes of `spoken_for`, on which other gangs are planned;
    nothing is held then. `mixed`: its scheduler may exchange the gang's pods among the nodes that
    it clears, so that all of them have to be in one domain.
    """

    id: GangId
    ask: int
    request: Request
    wanted: tuple[Member, ...]
    kept: tuple[tuple[int, NodeName], ...] = ()
    held: tuple[tuple[Member, NodeName], ...] = ()
    replaced: tuple[HoldId, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    without: tuple[NodeName, ...] = ()
    reserve: bool = False
    takes: Amounts = ()
    fewest_gpus: int = 0
    over: int | None = None
    spoken_for: tuple[NodeName, ...] = ()
    mixed: bool = False
    occupied: tuple[Occupied, ...] = ()

    def __post_init__(self) -> None:
        """Raise `BrokenInvariantError` unless each wanted pod has a rank of its own in the job."""
        ranks = {pod.rank for pod in self.wanted}
        require(len(ranks) == len(self.wanted), f"gangs: two pods of {self.id} want one rank")
        within = not ranks or 0 <= min(ranks) <= max(ranks) < self.request.pods
        require(within, f"gangs: a pod of {self.id} wants a rank that its job has not")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Check whether each pod's node can still take it, and whether the queue can take the gang.

    The answer is `Checked`. `waiting` are the unbound pods with their nodes; the GPUs of these pods
    and of `holds` count as available to them. `bound` are the other pods, by rank. `takes` is what
    each pod takes of its node beside GPUs. `over`: GPUs of pods of lower priority count as free,
    and other resources are not looked at, as where such a plan is made. `occupied`: as in `Place`.
    """

    id: GangId
    ask: int
    request: Request
    waiting: tuple[tuple[Member, NodeName], ...]
    bound: tuple[tuple[int, NodeName], ...]
    holds: tuple[HoldId, ...]
    takes: Amounts = ()
    over: int | None = None
    occupied: tuple[Occupied, ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """Release a hold; a hold that has ended is no error."""

    id: GangId
    hold: HoldId


@dataclass(frozen=True, slots=True)
class LabelNodes:
    """Set the gang's label to these values on nodes, replacing any other value."""

    id: GangId
    nodes: tuple[tuple[NodeName, Selection], ...]


@dataclass(frozen=True, slots=True)
class UnlabelNodes:
    """Remove the gang's label from nodes."""

    id: GangId
    nodes: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True)
class Nominate:
    """Write the nomination to `node` and the note, in one PATCH of the pod's status in its version.

    The hold is in the note, so that no reader sees the nomination without it and counts both.
    Without a node the nomination is removed: Volcano has to evict first, or the note is withdrawn.
    """

    id: GangId
    pod: Member
    note: Note
    node: NodeName | None


@dataclass(frozen=True, slots=True)
class Open:
    """Remove our gate and add the selector of the note, in one PATCH of the pod in its version."""

    id: GangId
    pod: Member
    note: Note


@dataclass(frozen=True, slots=True)
class OpenUnplanned:
    """Remove our gate from a pod in its version, and leave placement to its scheduler."""

    id: GangId
    pod: Member
    why: str


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """Report the state of the gang and its reason; issued when either changes."""

    id: GangId
    state: GangState
    text: str


@dataclass(frozen=True, slots=True)
class OpenInDomain:
    """Remove our gate and have the pod select the value of a label that `node` has."""

    id: GangId
    pod: Member
    label: str
    node: NodeName


PodInstruction = Nominate | Open | OpenUnplanned | OpenInDomain
"""Is written to one pod."""
Instruction = Place | Check | Release | LabelNodes | UnlabelNodes | PodInstruction | ReportStatus
