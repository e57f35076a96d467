"""What can be wrong, and the limits within which it is not yet."""

from dataclasses import dataclass, fields, replace
from enum import StrEnum


class Kind(StrEnum):
    """Every violation that can be reported."""

    SHAPE = "not the vendor's shape"
    LOST_NODE = "node lost or shown twice"
    FALSE_NEIGHBOUR = "false neighbour"
    FALSE_NOT_READY = "healthy node NotReady"
    FALSE_READY = "faulty node Ready"
    ERROR = "error inside the service"
    TAG = "tag does not name the content"
    GENERATION = "wrong generation"
    EVENTS = "event missing"
    HOLD_LOST = "hold lost"
    HOLD_OUTLIVED = "hold outlives its end"
    GPU_TWICE = "GPU held twice"
    GATE_CLOSED = "gate closed again"
    OPENED_IN_PART = "gang opened in part"
    SPLIT = "group in two domains"
    REVOKED = "revoked token accepted"
    SLOW_HEALTH = "/health slow or silent"
    DIED = "process ended by itself"
    TWO_MASTERS = "two masters on one state file"
    STUCK = "process does not end"
    TRACEBACK = "traceback in a log"
    SECRET = "secret in a log"
    UNSETTLED = "not converged"


@dataclass(frozen=True, slots=True)
class Violation:
    """One answer, or one absence of an answer, that must not be."""

    kind: Kind
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How long what may last. The first two are the cluster's own settings.

    `settle_s` is for convergence beyond what is documented, `health_s` for one answer, `revoke_s`
    for a token that left its file, `start_s` for a process to serve or to end, `slack_s` for the
    end of a hold; a tree has converged when it has stood for `calm_s`.
    """

    stale_s: float = 6.0
    reconnect_s: float = 18.0
    settle_s: float = 10.0
    health_s: float = 5.0
    revoke_s: float = 5.0
    start_s: float = 30.0
    slack_s: float = 5.0
    calm_s: float = 1.0

    def patient(self, factor: float) -> "Bounds":
        """The limits for a machine that is so many times slower; `reconnect_s` is the product's."""
        own = {each.name: getattr(self, each.name) * factor for each in fields(self)}
        return replace(self, **own | {"reconnect_s": self.reconnect_s})

    @property
    def window_s(self) -> float:
        """After a change of what is true, either status may be shown for so long."""
        return self.stale_s + self.reconnect_s + self.settle_s
