"""What the cluster says of a gang: a job's pods, and what was written for them, as values.

A gang is told whole each time. What the controller wrote comes back in it (`nominated`, `note`,
`selection`, `labelled`, `holds`), so that whoever leads goes on from what is there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import Request

GangId = NewType("GangId", str)
"""The uid of the pods' controlling owner; a job that starts anew keeps it, its pods do not."""
PodUid = NewType("PodUid", str)
Selection = NewType("Selection", str)
"""The value of the gang's label on a node, which its pods select: those with it may go there.

Unique for each plan of a gang, so that a label that comes late from an earlier plan selects
nothing. Empty: none.
"""


class Binding(StrEnum):
    """How the scheduler of a gang binds its pods, which decides what they may select."""

    WHOLE = "whole"
    """All that must run at once or none (Volcano). It takes what one pod of a role was refused as
    refused to its siblings, so that all pods of a gang have to select the same."""
    PIECEMEAL = "piecemeal"
    """Each pod by itself (kube-scheduler), so that the pods of a group select that group's nodes:
    a pod whose node is taken can go to no other group."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a pod's annotation says of its place; written with the nomination, before all else."""

    node: NodeName
    group: int
    hold: HoldId
    selection: Selection
    generation: int
    certified: bool
    """Whether the plan is proven the best."""
    over: bool = False
    """Whether pods of lower priority have to go first: nothing is held, `hold` is a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A pod of a gang, as it was read in `version`.

    `gated`: our gate is on; `other_gates`: somebody else's too. `fixed` is the host name that
    another gate keeper chose for it. `node` is where it is bound, `nominated` where it is
    nominated to, `selection` what its selector asks of the gang's label, empty while it does not.
    `succeeded`: it has finished and done its work, so that its rank need not come again.
    """

    uid: PodUid
    name: str
    rank: int
    version: str
    gated: bool = False
    other_gates: bool = False
    fixed: NodeName | None = None
    node: NodeName | None = None
    nominated: NodeName | None = None
    note: Note | None = None
    selection: Selection = Selection("")
    terminating: bool = False
    finished: bool = False
    succeeded: bool = False

    @property
    def live(self) -> bool:
        """Whether it is to run, or runs."""
        return not (self.terminating or self.finished)

    @property
    def waits(self) -> bool:
        """Whether it is to be bound yet."""
        return self.node is None and not (self.terminating or self.finished)

    @property
    def opened(self) -> bool:
        """Whether the scheduler may bind it any moment."""
        return not self.gated and self.waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A job's pods that go together.

    `request` is what the whole job asks for, so `request.pods` is how many pods there will be;
    rank r is in group r // `request.pods_per_group`. `at_least`: how many its scheduler starts
    together. `awaits`: what lets it in and did not yet, in words (`queue q1 has 8 of 64 GPUs
    left`), empty once it is let in, its queue's room included; `hopeless`: it would not be if all
    others had ended. `waived`: why its gates are to be opened without a plan (a person's order, a
    clean-up), empty where it is to be planned.

    `created_s` is on the clock of `Gangs.advance`; `wait_s` after it a required group may be split.
    `preempts`: its pods may have others evicted. `unheeded_class`: the priority class of its pods,
    where its scheduler goes by the class of the job and that has none.
    `labelled` are the nodes with the gang's label, `holds` those that were made for it and exist.
    """

    id: GangId
    namespace: str
    name: str
    kind: str
    binding: Binding
    request: Request
    at_least: int
    priority: int
    created_s: float
    members: tuple[Member, ...]
    awaits: str = ""
    hopeless: bool = False
    ungated: str = ""
    wait_s: float | None = None
    preempts: bool = False
    unheeded_class: str = ""
    labelled: Mapping[NodeName, Selection]
    holds: tuple[HoldId, ...] = ()

    def slipped(self) -> frozenset[PodUid]:
        """Pods that were made without a gate among gated ones, and wait for these: O(members).

        Of a gang that is bound whole: another scheduler binds such a pod at once.
        """
        if self.binding is not Binding.WHOLE or self.ungated:
            return frozenset()
        slipped = [
            member.uid
            for member in self.members
            if member.opened and not member.selection and member.fixed is None
        ]
        waits = slipped and any(member.gated and member.waits for member in self.members)
        return frozenset(slipped) if waits else frozenset()

    def group_of(self, rank: int) -> int:
        """The number of the group that a rank is in."""
        return rank // self.request.pods_per_group
