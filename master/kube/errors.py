"""What the API server, or the way to it, answered instead of what was asked for."""

import time
from collections.abc import Mapping
from enum import StrEnum

from pydantic import BaseModel, Field, ValidationError

from topo.kit.backoff import RetryLaterError, parse_retry_after

MAX_MESSAGE_CHARS = 500


class Failure(StrEnum):
    """Kinds of failure, also the values of a metric's label."""

    CONNECT = "connect"
    TLS = "tls"
    CREDENTIALS = "credentials"
    TIMEOUT = "timeout"
    CUT = "cut"
    TOO_LARGE = "too-large"
    MALFORMED = "malformed"
    DENIED = "denied"
    MISSING = "missing"
    CONFLICT = "conflict"
    GONE = "gone"
    BUSY = "busy"
    SERVER = "server-error"
    OTHER = "other-status"


_BY_STATUS = {
    401: Failure.DENIED,
    403: Failure.DENIED,
    404: Failure.MISSING,
    409: Failure.CONFLICT,
    410: Failure.GONE,
    429: Failure.BUSY,
}


class KubeError(RetryLaterError):
    """A call that did not get what it asked for. Holds no secret and no body of an answer.

    `status` is None where there was no HTTP answer, or none that could be read; `failure` then says
    why. `reason` is the API server's word (`Expired`), `message` at most `MAX_MESSAGE_CHARS` of its
    own text, `retry_after_s` the wait that it asks for.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        failure: Failure | None = None,
        reason: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        self.reason = _short(reason, 100)
        self.message = _short(message, MAX_MESSAGE_CHARS)
        self.failure = failure or _of_status(status)
        super().__init__(self.message, retry_after_s)

    @property
    def is_gone(self) -> bool:
        """The version that was asked for is not kept any more: list again."""
        return self.failure is Failure.GONE

    @property
    def is_conflict(self) -> bool:
        """Somebody else changed the object, or it is another one of that name."""
        return self.failure is Failure.CONFLICT

    @property
    def is_missing(self) -> bool:
        """There is no such object, or no such kind of object."""
        return self.failure is Failure.MISSING

    @property
    def is_denied(self) -> bool:
        """The server does not know us (401), or does not let us (403)."""
        return self.failure is Failure.DENIED

    @property
    def is_passing(self) -> bool:
        """The same call may succeed later: the server is busy or ill, or did not answer."""
        return self.failure is Failure.BUSY or self.status is None or self.status >= 500


def _of_status(status: int | None) -> Failure:
    if status is None:
        return Failure.CONNECT
    return _BY_STATUS.get(status, Failure.SERVER if status >= 500 else Failure.OTHER)


def _short(text: str, limit: int) -> str:
    """One line of printable text, not longer than the limit."""
    line = " ".join(text[: 4 * limit].split())
    return "".join(char if char.isprintable() else "?" for char in line[:limit])


class _Details(BaseModel):
    retry_after_s: float | None = Field(None, alias="retryAfterSeconds", ge=0)


class StatusObject(BaseModel):
    """The API server's `Status`, the body of every refusal and of an `ERROR` event."""

    code: int | None = Field(None, ge=100, le=599)
    reason: str = ""
    message: str = ""
    details: _Details | None = None

    def error(self, status: int | None = None, retry_after_s: float | None = None) -> KubeError:
        """The same as an error; `status` and `retry_after_s` are what the HTTP answer says."""
        asked_s = self.details.retry_after_s if self.details else None
        return KubeError(
            self.message or f"the API server answers {status or self.code}",
            status=status or self.code,
            reason=self.reason,
            failure=Failure.OTHER if (status or self.code) is None else None,
            retry_after_s=retry_after_s if retry_after_s is not None else asked_s,
        )


def answered(status: int, headers: Mapping[str, str], body: bytes) -> KubeError:
    """The error of an answer whose status is no 2xx; what is no `Status` is not shown."""
    server_now_s = parse_retry_after(headers.get("Date"), 0.0)
    retry_after_s = parse_retry_after(headers.get("Retry-After"), server_now_s or time.time())
    try:
        said = StatusObject.model_validate_json(body)
    except ValidationError:
        said = StatusObject(message=f"an answer {status} that is none of Kubernetes")
    return said.error(status, retry_after_s)
