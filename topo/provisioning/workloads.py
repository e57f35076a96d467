"""A Workload of Kueue as a request for capacity, and the answer in its admission check.

    it is gated by us                        Accepted, and let go once its groups are booked
    quota reserved, our check Pending        New; with our words in the message Accepted
    our check Ready                          Provisioned
    our check Retry or Rejected              over: Kueue evicts it, and the check is Pending again
    admitted, or let go and in its queue     its pods may come: what is booked for them stays

A job is gated by a name in the annotation `kueue.x-k8s.io/admission-gated-by`, which Kueue copies
to its Workload: it is not considered for quota while a name is there. Names can only be taken away
(`ValidateAdmissionGatedByAnnotationOnUpdate`), so a job is held once, and what becomes of it later
is up to the check. Kueue resets a check that is not Pending when it evicts a workload; a Pending
one keeps its message. The quota goes in a later write, and a check that says Retry by then stays
so, and keeps the workload from its quota for ever: one that is being evicted is not answered.

Source: sigs.k8s.io/kueue v0.19.2, `apis/kueue/v1beta2/workload_types.go`,
`pkg/util/webhook/validation_admissiongatedby.go`, `pkg/workload/evict/evict.go`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from topo.provisioning.course import (
    VALID,
    Phase,
    ProvisioningRequest,
    RequestCondition,
    RequestUid,
)
from topo.provisioning.messages import WriteStatus
from topo.provisioning.record import GROUPS, INSIDE

HELD_S, WAITING_S = 604_800, 60
"""How long a job is held before its quota, and how long one with quota waits for groups: its quota
is idle meanwhile, and goes to others afterwards."""
REQUEUE_S = 60
"""So long a workload that got no groups waits before it asks for its quota again."""
WAITS = "waiting for whole groups"
"""How the message of a check begins that was answered, so that a reset one is told from it."""
_QUOTA, _ADMITTED, _EVICTED, _FINISHED = "QuotaReserved", "Admitted", "Evicted", "Finished"


class CheckState(StrEnum):
    """The state of an admission check of a workload."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """An admission check of a workload; `hold` is the booking that it was made Ready for."""

    name: str
    state: str
    message: str
    since_s: float
    hold: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload as it was read in `version`.

    `pod_sets` are the names of their templates, each with its pods. `true` are the types of the
    conditions that hold, with the Unix time since when. `gates` are who holds it before its quota.
    """

    uid: RequestUid
    namespace: str
    name: str
    version: str
    created_s: float
    pod_sets: tuple[tuple[str, int], ...]
    gates: tuple[str, ...] = ()
    true: tuple[tuple[str, float], ...] = ()
    checks: tuple[AdmissionCheck, ...] = ()
    is_active: bool = True
    is_leaving: bool = False


def as_request(
    workload: Workload, gate: str, checks: Collection[str]
) -> ProvisioningRequest | None:
    """Return what is asked for a workload; None where it can have no pods now, nor ask for quota.

    `gate` is our name among those that hold a job, `checks` are the names of our checks.
    """
    true = dict(workload.true)
    has_quota = _QUOTA in true
    is_over = _FINISHED in true or not workload.is_active or workload.is_leaving
    if is_over or (_EVICTED in true and not (has_quota and _ADMITTED in true)):
        return None
    if gate in workload.gates:
        accepted = _condition(Phase.ACCEPTED, workload.created_s)
        return _request(workload, HELD_S, workload.created_s, (accepted,), is_gated=True)
    ours = [each for each in workload.checks if each.name in checks]
    if not has_quota or not ours or _ADMITTED in true:
        return _request(workload, WAITING_S, workload.created_s, (), is_let_go=True)
    conditions = tuple(_read(min(ours, key=_progress)))
    is_let_go = all(each.state == CheckState.READY and not each.hold for each in ours)
    named = next((each.hold for each in ours if each.hold), "")
    return _request(
        workload, WAITING_S, true[_QUOTA], conditions, is_let_go=is_let_go, named_hold=named
    )


def check_state(asked: WriteStatus) -> CheckState:
    """Return the state that a check is to have; only what no time and no room changes is final."""
    if asked.phase is Phase.PROVISIONED:
        return CheckState.READY
    if asked.phase is Phase.ACCEPTED:
        return CheckState.PENDING
    return CheckState.REJECTED if asked.is_final else CheckState.RETRY


def check_message(asked: WriteStatus) -> str:
    """Return the message of a check."""
    if asked.phase is Phase.ACCEPTED:
        return f"{WAITS}: {asked.text}" if asked.text else WAITS
    details = dict(asked.details) if asked.hold else {}
    groups, inside = details.get(GROUPS, ""), details.get(INSIDE, "")
    text = f"{asked.text}, inside {inside}" if inside else asked.text
    return f"{text}: {groups}" if groups else text


def _request(
    workload: Workload,
    valid_s: int,
    created_s: float,
    conditions: tuple[RequestCondition, ...],
    *,
    is_gated: bool = False,
    is_let_go: bool = False,
    named_hold: str = "",
) -> ProvisioningRequest:
    return ProvisioningRequest(
        uid=workload.uid,
        namespace=workload.namespace,
        name=workload.name,
        version=workload.version,
        created_s=created_s,
        pod_sets=workload.pod_sets,
        parameters=((VALID, str(valid_s)),),
        conditions=conditions,
        is_gated=is_gated,
        is_let_go=is_let_go,
        named_hold=named_hold,
        workload=workload.name,
    )


def _progress(check: AdmissionCheck) -> int:
    """Return how far a check is: of several of ours the least counts, and one that is over.

    So is one in a state that a later Kueue may know.
    """
    return {CheckState.PENDING.value: 1, CheckState.READY.value: 2}.get(check.state, 0)


def _read(check: AdmissionCheck) -> tuple[RequestCondition, ...]:
    """Return the conditions of a request that a check stands for."""
    accepted = _condition(Phase.ACCEPTED, check.since_s)
    if check.state == CheckState.READY:
        return accepted, _condition(Phase.PROVISIONED, check.since_s, check.message)
    if check.state != CheckState.PENDING:
        return accepted, _condition(Phase.FAILED, check.since_s, check.message)
    if not check.message.startswith(WAITS):
        return ()
    said = check.message.removeprefix(WAITS).removeprefix(": ")
    if not said:
        return (accepted,)
    waits = RequestCondition(Phase.PROVISIONED.value, False, "Waiting", said, check.since_s)
    return accepted, waits


def _condition(phase: Phase, since_s: float, message: str = "") -> RequestCondition:
    return RequestCondition(phase.value, True, phase.value, message, since_s)
