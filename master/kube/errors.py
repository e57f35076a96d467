"""Errors of calls to the API server: refusals, failures on the way, and unreadable answers."""

import time
from collections.abc import Mapping
from enum import StrEnum

from pydantic import BaseModel, Field, ValidationError

from topo.kit.backoff import RetryLaterError, parse_retry_after

MAX_MESSAGE_CHARS = 500


class Failure(StrEnum):
    """Kinds of failure; also the values of a metric's label."""

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
    """A call that failed. Holds no secret and no body of an answer.

    `status` is None without an HTTP answer; `failure` then says why. `reason` is the API server's
    word (`Expired`), `message` at most `MAX_MESSAGE_CHARS` of its text, `retry_after_s` the wait
    that it asks for.
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
        """Whether the server no longer keeps the requested version: list again."""
        return self.failure is Failure.GONE

    @property
    def is_conflict(self) -> bool:
        """Whether another client changed the object, or it is another object of that name."""
        return self.failure is Failure.CONFLICT

    @property
    def is_missing(self) -> bool:
        """Whether the object, or its kind, does not exist."""
        return self.failure is Failure.MISSING

    @property
    def is_denied(self) -> bool:
        """Whether the server does not know this client (401) or refuses it (403)."""
        return self.failure is Failure.DENIED

    @property
    def is_passing(self) -> bool:
        """Whether the same call may succeed later: the server is busy, failing or silent."""
        return self.failure is Failure.BUSY or self.status is None or self.status >= 500


def _of_status(status: int | None) -> Failure:
    if status is None:
        return Failure.CONNECT
    return _BY_STATUS.get(status, Failure.SERVER if status >= 500 else Failure.OTHER)


def _short(text: str, limit: int) -> str:
    """Return one line of printable text of at most `limit` characters."""
    line = " ".join(text[: 4 * limit].split())
    return "".join(char if char.isprintable() else "?" for char in line[:limit])


class _Details(BaseModel):
    retry_after_s: float | None = Field(None, alias="retryAfterSeconds", ge=0)


class StatusObject(BaseModel):
    """The API server's `Status`: the body of a refusal and of an `ERROR` event."""

    code: int | None = Field(None, ge=100, le=599)
    reason: str = ""
    message: str = ""
    details: _Details | None = None

    def error(self, status: int | None = None, retry_after_s: float | None = None) -> KubeError:
        """Return it as an error; `status` and `retry_after_s` of the HTTP answer come first."""
        asked_s = self.details.retry_after_s if self.details else None
        return KubeError(
            self.message or f"the API server answers {status or self.code}",
            status=status or self.code,
            reason=self.reason,
            failure=Failure.OTHER if (status or self.code) is None else None,
            retry_after_s=retry_after_s if retry_after_s is not None else asked_s,
        )


def error_of_answer(status: int, headers: Mapping[str, str], body: bytes) -> KubeError:
    """Return the error of an answer that is no 2xx; a body other than a `Status` is not shown."""
    server_now_s = parse_retry_after(headers.get("Date"), 0.0)
    retry_after_s = parse_retry_after(headers.get("Retry-After"), server_now_s or time.time())
    try:
        said = StatusObject.model_validate_json(body)
    except ValidationError:
        said = StatusObject(message=f"an answer {status} that is none of Kubernetes")
    return said.error(status, retry_after_s)
