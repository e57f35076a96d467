"""A ProvisioningRequest as values: what it asks for, and how far it has come.

The phase follows from the conditions alone, in the order in which Kueue reads them: what ended a
request outweighs what came before. Source: k8s.io/autoscaler/cluster-autoscaler/apis,
`provisioningrequest/autoscaling.x-k8s.io/v1/types.go`; sigs.k8s.io/kueue v0.19,
`pkg/controller/admissionchecks/provisioning/controller.go`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from topo.model.durations import parse_duration
from topo.model.errors import Refusal

RequestUid = NewType("RequestUid", str)

BOOKING_S, VALID_S = 600.0, 600.0
MOST_BOOKING_S, MOST_VALID_S = 82_800.0, 604_800.0
"""At most 23 hours, since a hold lasts a day at most, and a week."""
BOOKING, VALID = "BookingSeconds", "ValidUntilSeconds"
"""Parameters: how long the capacity stays booked, and how long after its creation a request may
wait for room (the word of the cluster autoscaler)."""


class Phase(StrEnum):
    """How far a request has come; all but the first are the types of its conditions."""

    NEW = "New"
    ACCEPTED = "Accepted"
    """It waits for room."""
    PROVISIONED = "Provisioned"
    """Its capacity is booked."""
    EXPIRED = "BookingExpired"
    """The time of the booking is over."""
    REVOKED = "CapacityRevoked"
    """A booked group broke."""
    FAILED = "Failed"
    """It got no capacity."""

    @property
    def is_over(self) -> bool:
        """Whether a request in this phase has no capacity and gets none any more."""
        return self in {Phase.EXPIRED, Phase.REVOKED, Phase.FAILED}


_BY_WEIGHT = (Phase.FAILED, Phase.REVOKED, Phase.EXPIRED, Phase.PROVISIONED, Phase.ACCEPTED)


@dataclass(frozen=True, slots=True)
class RequestCondition:
    """A condition of a request; `since_s` is the Unix time of its last transition."""

    type: str
    is_true: bool
    reason: str
    message: str
    since_s: float


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """How long the capacity stays booked, and how long the request may wait for room."""

    booking_s: float = BOOKING_S
    valid_s: float = VALID_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningRequest:
    """A request of our class as it was read in `version`.

    `pod_sets` are the names of PodTemplates in its namespace, each with a number of pods. `details`
    are those that were written when its capacity was booked; an object that has no room for them
    names the booking, `named_hold`. `workload` is the Workload of Kueue that it is of, empty for
    none. `created_s` is Unix time. `is_gated`: it waits to be let go,
    and nothing is written on it before its capacity is booked. `is_let_go`: its pods may come at
    any time, and what is booked stays theirs until it ends by itself.
    """

    uid: RequestUid
    namespace: str
    name: str
    version: str
    created_s: float
    pod_sets: tuple[tuple[str, int], ...]
    parameters: tuple[tuple[str, str], ...] = ()
    conditions: tuple[RequestCondition, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    named_hold: str = ""
    workload: str = ""
    is_gated: bool = False
    is_let_go: bool = False
    is_leaving: bool = False

    @property
    def full_name(self) -> str:
        """Its namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def phase(self) -> Phase:
        """How far it has come."""
        true = {each.type for each in self.conditions if each.is_true}
        return next((phase for phase in _BY_WEIGHT if phase.value in true), Phase.NEW)

    def condition(self, phase: Phase) -> RequestCondition | None:
        """Return the condition of a phase, true or not."""
        return next((each for each in self.conditions if each.type == phase.value), None)

    @property
    def times(self) -> RequestTimes:
        """The times that its parameters give; the defaults for those that cannot be read."""
        found = read_times(dict(self.parameters))
        return found if isinstance(found, RequestTimes) else RequestTimes()

    @property
    def deadline_s(self) -> float | None:
        """The Unix time at which its booking ends; None where nothing was booked for it."""
        provisioned = self.condition(Phase.PROVISIONED)
        if provisioned is None or not provisioned.is_true:
            return None
        return provisioned.since_s + self.times.booking_s


def read_times(parameters: dict[str, str]) -> RequestTimes | Refusal:
    """Return the times that the parameters give, or why they cannot be read."""
    found: list[float] = []
    of_booking, of_validity = (
        (BOOKING, BOOKING_S, 1.0, MOST_BOOKING_S),
        (VALID, VALID_S, 0.0, MOST_VALID_S),
    )
    for name, default_s, least_s, most_s in (of_booking, of_validity):
        if name not in parameters:
            found.append(default_s)
            continue
        seconds = parse_duration(parameters[name])
        if isinstance(seconds, Refusal) or not least_s <= seconds <= most_s:
            what = f"{name} is {parameters[name][:32]!r}"
            fix = f"give seconds from {least_s:g} to {most_s:g}, such as {default_s:g}"
            return Refusal(what, f"spec.parameters[{name}]", fix)
        found.append(float(int(seconds)))
    return RequestTimes(*found)


def conditions_after(
    request: ProvisioningRequest, phase: Phase, message: str, now_s: float
) -> Iterator[RequestCondition]:
    """Yield the conditions of a request that enters a phase, or stays accepted and waits.

    A condition that stays true keeps its message and its time. Times are whole seconds, as
    Kubernetes has them.
    """
    at_s = float(int(now_s))
    kept = {each.type: each for each in request.conditions}
    if phase is Phase.ACCEPTED and message:
        waits = RequestCondition(Phase.PROVISIONED.value, False, "Waiting", message, at_s)
        kept[waits.type] = waits
    elif phase is not Phase.NEW:
        kept[phase.value] = RequestCondition(phase.value, True, _REASONS[phase], message, at_s)
    yield from kept.values()


_REASONS = {
    Phase.ACCEPTED: "Accepted",
    Phase.PROVISIONED: "GroupsBooked",
    Phase.EXPIRED: "BookingTimeOver",
    Phase.REVOKED: "GroupBroken",
    Phase.FAILED: "NoWholeGroups",
}
