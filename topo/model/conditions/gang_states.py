"""The states of a gang: one table. REST, Events, the doctor, alerts and documentation follow it.

To add a state, add a row here and its words to both languages of the page, then run `make docs`:
the tests name what is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Literal, Self

from topo.model.conditions.master import GangCondition

EventType = Literal["Normal", "Warning"]
"""The two types that Kubernetes has for Events."""


class Stage(StrEnum):
    """How far a gang is; the colours of terminals and of the page follow it."""

    RUNNING = "running"
    PLACED = "placed"
    """It has nodes and is about to run."""
    PENDING = "pending"
    """It goes on without anybody's help."""
    BLOCKED = "blocked"
    """It waits for something that may never come, or something is wrong."""


class PodCondition(Enum):
    """Which pods a state writes the condition `<domain>/Placed` of, beside those that run and
    have one.
    """

    UNCHANGED = auto()
    """None: other writes of the pods are under way, and each of them names its version."""
    WAITING = auto()
    """The first pod, while it is gated: no other write of it is under way."""
    ENDED = auto()
    """All that have one: the pods of a gang that has waited are not written any more."""


@dataclass(frozen=True, slots=True)
class StateRow:
    """What the table states of one state.

    `event` is the reason of the Event on the job; empty for a state that passes within moments.
    `condition` is the finding of the doctor, whose cause, next step and severity are in the
    catalogue; `step` is the next step of a state without one. `is_advised`: the smallest change
    that lets the gang in is looked for and reported. `is_prompt`: the state ends within minutes, or
    the master or a scheduler does not act, which raises an alert.
    """

    word: str
    meaning: str
    stage: Stage = Stage.BLOCKED
    event: str = ""
    event_type: EventType = "Normal"
    condition: GangCondition | None = None
    step: str = ""
    pod_condition: PodCondition = PodCondition.UNCHANGED
    is_advised: bool = False
    is_prompt: bool = False

    @property
    def reason(self) -> str:
        """The reason of the condition of a pod; the Event's, where the state has one."""
        return self.event or f"Gang{self.word.title().replace('-', '')}"


class GangState(StrEnum):
    """The state of a gang. A member is a `str` equal to its word; `row` has the rest."""

    row: StateRow

    def __new__(cls, row: StateRow) -> Self:
        """Make the member of a row."""
        member = str.__new__(cls, row.word)
        member._value_ = row.word
        member.row = row
        return member

    PODS_MISSING = StateRow(
        "pods-missing",
        "not all of its pods exist, or some have ranks that its job has not",
        Stage.PENDING,
        step="see why the controller of the job makes no more, such as a ResourceQuota that is used"
        " up: `kubectl describe` the job and `kubectl describe quota`",
    )
    OTHER_GATE = StateRow(
        "other-gate",
        "a scheduling gate of another controller is on its pods",
        event="GangWaitsForGate",
        step="see the controller that the gate is named after",
        pod_condition=PodCondition.WAITING,
    )
    QUEUE = StateRow(
        "queue",
        "its queue has not admitted it, or has no room",
        event="GangWaitsForQueue",
        step="wait, or see the queue: the text has its numbers",
        pod_condition=PodCondition.WAITING,
    )
    NEVER_LET_IN = StateRow(
        "never-let-in",
        "its queue would have no room even if all other jobs had ended",
        event="GangNeverLetIn",
        event_type="Warning",
        condition=GangCondition.HOPELESS,
        pod_condition=PodCondition.WAITING,
    )
    IN_LINE = StateRow(
        "in-line",
        "it is in line; gangs ahead of it are being placed",
        Stage.PENDING,
        is_prompt=True,
    )
    NO_ROOM = StateRow(
        "no-room",
        "it does not fit now",
        event="GangDoesNotFit",
        event_type="Warning",
        step="wait, or make the smallest change: `topo why JOB`",
        pod_condition=PodCondition.WAITING,
        is_advised=True,
    )
    NEVER_FITS = StateRow(
        "never-fits",
        "it would not fit even if all nodes were free",
        event="GangNeverFits",
        event_type="Warning",
        condition=GangCondition.HOPELESS,
        pod_condition=PodCondition.WAITING,
        is_advised=True,
    )
    NO_GROUPS = StateRow(
        "no-groups",
        "no groups of nodes are known, or not yet",
        event="GangFindsNoGroups",
        event_type="Warning",
        condition=GangCondition.NO_GROUPS,
        pod_condition=PodCondition.WAITING,
    )
    BEHIND = StateRow(
        "behind",
        "it would fit, on nodes that are kept for the first in line",
        event="GangWaitsInLine",
        step="wait, or see why the first in line does: `topo gangs`",
        pod_condition=PodCondition.WAITING,
    )
    PLACED = StateRow(
        "placed",
        "it has its nodes, which are being prepared",
        Stage.PLACED,
        event="GangPlaced",
        is_prompt=True,
    )
    OPENED = StateRow(
        "opened",
        "its scheduler may bind it",
        Stage.PLACED,
        condition=GangCondition.NOT_BOUND,
        is_prompt=True,
    )
    PREEMPTS = StateRow(
        "preempts",
        "it is opened over pods of lower priority, which its scheduler may evict",
        event="GangPreempts",
        event_type="Warning",
        condition=GangCondition.NOT_BOUND,
    )
    DISPLACED = StateRow(
        "displaced",
        "planned nodes were lost and there is no other room; none of its pods runs",
        event="GangDisplaced",
        event_type="Warning",
        condition=GangCondition.STUCK,
    )
    HALF_BOUND = StateRow(
        "half-bound",
        "some of its pods run, and there is no room for the others where they may be",
        event="GangHalfBound",
        event_type="Warning",
        condition=GangCondition.STUCK,
    )
    SPLIT = StateRow(
        "split",
        "pods of a group run in several domains although it is required whole, or the job runs"
        " outside of the one group that all of it shares (`gpu-group-within`)",
        event="GangSplit",
        event_type="Warning",
        condition=GangCondition.SPLIT,
    )
    BOUND = StateRow(
        "bound",
        "all of its pods run",
        Stage.RUNNING,
        event="GangBound",
        pod_condition=PodCondition.ENDED,
    )
    GROWING = StateRow(
        "growing",
        "enough of its pods run (`minAvailable`), and the others wait for room",
        Stage.RUNNING,
        event="GangGrows",
        pod_condition=PodCondition.ENDED,
    )
    WAIVED = StateRow(
        "waived",
        "its gates are opened without a plan",
        Stage.PENDING,
        event="GangNotPlaced",
        event_type="Warning",
        step="see [TopoGateOpenedUnplanned](operations.md#topogateopenedunplanned)",
        pod_condition=PodCondition.ENDED,
    )
    WRITE_REFUSED = StateRow(
        "write-refused",
        "the API server refuses a write",
        event="GangWriteRefused",
        event_type="Warning",
        condition=GangCondition.WRITE_REFUSED,
        is_prompt=True,
    )
    UNREADABLE = StateRow(
        "unreadable",
        "planning it raised an error, so that it is set aside; its gates are opened after the gate"
        " timeout",
        event="GangUnreadable",
        event_type="Warning",
        condition=GangCondition.UNREADABLE,
        pod_condition=PodCondition.WAITING,
    )
    NO_LABELS = StateRow(
        "no-labels",
        "its scheduler chooses its nodes by a label of their groups, and no node has that label",
        event="GangFindsNoLabels",
        event_type="Warning",
        condition=GangCondition.NO_LABELS,
    )
    NATIVE = StateRow(
        "native",
        "Volcano chooses its nodes, and has not bound all of its pods",
        Stage.PENDING,
    )


STATE_OF_REASON: Mapping[str, GangState] = {each.row.reason: each for each in GangState}
"""The state that the condition of a pod reports, by the condition's reason."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A Warning on a job that no plan reached, so that it has no state of a gang."""

    reason: str
    meaning: str
    step: str


BYPASSED_WEBHOOK = JobEvent(
    "GangPassedBy",
    "a pod was made without our gate; of a native job: its PodGroup without groups",
    "see [TopoWebhookBypassed](operations.md#topowebhookbypassed)",
)
UNGROUPED = JobEvent(
    "GangUngrouped",
    "no groups are planned, with why: what is asked for cannot be, its user chooses nodes by other"
    " means, or pods of that kind get none",
    "correct the job as the Event says ([volcano.md](volcano.md#what-is-refused)), delete it and"
    " create it again",
)
GROUPS_IGNORED = JobEvent(
    "GangGroupsIgnored",
    "a native job: Volcano's scheduler is configured to ignore its groups",
    "see [TopoGroupsIgnored](operations.md#topogroupsignored)",
)
NOTE_IGNORED = JobEvent(
    "GangNoteIgnored",
    "on a pod: the placement that its annotation states was not made for it, and is not used",
    "remove the annotation `<domain>/placement` from the template of the job: masters write it",
)
JOB_EVENTS = (BYPASSED_WEBHOOK, UNGROUPED, GROUPS_IGNORED, NOTE_IGNORED)
