"""One HTTP exchange with the cluster manager, and its possible failures.

It is bounded in time, size and in where redirects may lead.
"""

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import aiohttp
from yarl import URL

from master.settings.cluster_manager import ClusterManagerSettings, base_url
from topo.kit.backoff import RetryLaterError, parse_retry_after
from topo.kit.serving.body import bounded_bytes
from topo.kit.threads import off_loop
from topo.kit.tls import client_context
from topo.model.errors import BadInputError, Refusal

MAX_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEP_METHOD = frozenset({307, 308})
"""Redirects that repeat a POST (RFC 9110 15.4); others would turn it into a GET."""
_MOST_SHOWN_CHARS = 100
"""The most that messages show of a manager's text."""


class TroubleKind(StrEnum):
    """Why a poll failed; also the values of a metric's label."""

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
    """A poll without a usable answer. `retry_after_s` is the least wait before the next one."""

    def __init__(
        self, kind: TroubleKind, refusal: Refusal, retry_after_s: float | None = None
    ) -> None:
        super().__init__(str(refusal), retry_after_s)
        self.kind = kind
        self.refusal = refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerQuestion:
    """A request: a path under the manager's address, never a URL.

    `patience_s`: how long its answer may take, in place of what the settings say.
    """

    path: str
    patience_s: float | None = None
    method: str = "GET"
    query: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    body: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. The body is read for status 200 alone, so no other is shown."""

    status: int
    body: bytes
    retry_after_s: float | None


class Transport:
    """Exchanges with one manager over `http`, a session of the caller.

    Raises `BadInputError` for an unusable address.
    """

    def __init__(self, settings: ClusterManagerSettings, http: aiohttp.ClientSession) -> None:
        self._settings = settings
        self._http = http
        self._base = base_url(settings)
        prefix = settings.flags.prefix
        self._tls_fix = f"give the authority of its certificate as {prefix}-ca-file"
        self._redirect_fix = f"give its final address as {prefix}-address"
        self._tls: ssl.SSLContext | None = None

    async def ask(self, question: ManagerQuestion) -> Reply:
        """Return the reply, whatever its status. Raises `TroubleError` without one."""
        try:
            return await self._follow(question)
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            # The CA file may have been rotated since it was read.
            self._tls = None
            raise _trouble(TroubleKind.TLS, _tls_reason(error), question, self._tls_fix) from error
        except TimeoutError as error:
            what = "no answer in time"
            raise _trouble(TroubleKind.TIMEOUT, what, question, "is it overloaded?") from error
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError) as error:
            what = "the answer broke off"
            raise _trouble(TroubleKind.CUT, what, question, "look at its log") from error
        except (aiohttp.ClientResponseError, ValueError) as error:
            # Also what the libraries make of a header that nobody foresaw.
            what = "what answers does not keep to HTTP"
            fix = "is the address right, and is no other service at that port?"
            raise _trouble(TroubleKind.MALFORMED, what, question, fix) from error
        except (aiohttp.ClientError, OSError) as error:
            what = f"no connection: {_os_reason(error)}"
            fix = "is the address right, and is the manager running?"
            raise _trouble(TroubleKind.CONNECT, what, question, fix) from error

    async def _follow(self, question: ManagerQuestion) -> Reply:
        url = self._base.join(URL(self._base.path.rstrip("/") + question.path))
        if question.query:
            url = url.with_query(question.query)
        for _ in range(MAX_REDIRECTS + 1):
            async with self._http.request(
                question.method,
                url,
                headers=question.headers,
                json=question.body,
                allow_redirects=False,
                ssl=await self._context(),
                timeout=self._timeout(question),
            ) as response:
                if response.status not in _REDIRECTS:
                    return await self._read(response, question)
                url = self._redirected(url, response, question)
        what = f"more than {MAX_REDIRECTS} redirects"
        raise _trouble(TroubleKind.REDIRECT, what, question, self._redirect_fix)

    def _timeout(self, question: ManagerQuestion) -> aiohttp.ClientTimeout:
        patience_s, settings = question.patience_s, self._settings
        return aiohttp.ClientTimeout(
            total=patience_s or settings.request_timeout_s,
            sock_connect=settings.connect_timeout_s,
            sock_read=patience_s or settings.read_timeout_s,
        )

    async def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            try:
                self._tls = await off_loop(partial(tls_context, self._settings))
            except BadInputError as error:
                raise TroubleError(TroubleKind.TLS, error.refusal) from error
        return self._tls

    async def _read(self, response: aiohttp.ClientResponse, question: ManagerQuestion) -> Reply:
        retry_after_s = _patience(response.headers)
        if response.status != 200:
            return Reply(response.status, b"", retry_after_s)
        limit_bytes = self._settings.max_answer_bytes
        body = await bounded_bytes(response.content, limit_bytes)
        if body is None:
            what = f"the answer is larger than {limit_bytes} bytes"
            raise _trouble(TroubleKind.TOO_LARGE, what, question, "is this the right path?")
        return Reply(200, body, retry_after_s)

    def _redirected(
        self, url: URL, response: aiohttp.ClientResponse, question: ManagerQuestion
    ) -> URL:
        """Return where a redirect leads, if it keeps scheme, host and port.

        A redirect with a user is refused: only our settings name the user.
        """
        try:
            target = url.join(URL(response.headers.get("Location", "")))
            elsewhere = target.origin() != self._base.origin()
        except ValueError:
            raise _trouble(
                TroubleKind.REDIRECT, "a redirect to nowhere", question, self._redirect_fix
            ) from None
        if elsewhere:
            origin = str(target.origin())[:_MOST_SHOWN_CHARS]
            what = f"a redirect to {origin}, where credentials must not go"
            raise _trouble(TroubleKind.REDIRECT, what, question, self._redirect_fix)
        if target.user is not None or target.password is not None:
            what = "a redirect with credentials in it"
            raise _trouble(TroubleKind.REDIRECT, what, question, self._redirect_fix)
        if question.method != "GET" and response.status not in _KEEP_METHOD:
            what = f"a redirect ({response.status}) that would drop the body of the request"
            raise _trouble(TroubleKind.REDIRECT, what, question, self._redirect_fix)
        return target


def open_session() -> aiohttp.ClientSession:
    """Return a session for one manager: no cookies, no proxies of the environment."""
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept": "application/json", "User-Agent": "topo-master"},
        trust_env=False,
    )


def tls_context(settings: ClusterManagerSettings) -> ssl.SSLContext:
    """Return the context that verifies the manager. Raises `BadInputError` for an
    unusable CA file.
    """
    return client_context(settings.ca_file, verify=not settings.insecure)


def _trouble(kind: TroubleKind, what: str, question: ManagerQuestion, fix: str) -> TroubleError:
    return TroubleError(kind, Refusal(what, f"{question.method} {question.path}", fix))


def _patience(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `Retry-After`.

    A date is compared with the `Date` of the same answer, so neither clock has to be right.
    """
    server_now_s = parse_retry_after(headers.get("Date"), 0.0)
    return parse_retry_after(headers.get("Retry-After"), server_now_s or time.time())


def _tls_reason(error: Exception) -> str:
    cause: Any = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    reason = getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or str(cause)
    return f"its certificate is not trusted: {reason}"


def _os_reason(error: Exception) -> str:
    cause = getattr(error, "os_error", error)
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
