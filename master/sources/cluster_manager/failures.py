"""What can go wrong with a cluster manager: a bounded list of kinds, each with a sentence."""

from enum import StrEnum

from topo.kit.backoff import RetryLaterError
from topo.model.errors import Refusal


class TroubleKind(StrEnum):
    """Why a poll failed; also the value of the metric's label."""

    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    CUT = "cut"
    REDIRECT = "redirect"
    TOO_LARGE = "too-large"
    BUSY = "busy"
    STATUS = "status"
    CREDENTIALS = "credentials"
    UNAUTHORIZED = "unauthorized"
    MALFORMED = "malformed"
    CONTENT = "content"


class TroubleError(RetryLaterError):
    """A poll that gave no usable answer. `retry_after_s` is the least wait before the next try."""

    def __init__(
        self, kind: TroubleKind, refusal: Refusal, retry_after_s: float | None = None
    ) -> None:
        super().__init__(str(refusal), retry_after_s)
        self.kind = kind
        self.refusal = refusal
