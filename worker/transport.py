"""Reports over HTTP: one connection, bounded answers, and failures with the next step."""

import asyncio
import time
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypeVar

import aiohttp
import orjson
from pydantic import ValidationError
from yarl import URL

from topo.kit.backoff import RetryLaterError, parse_retry_after
from topo.kit.secrets import read_token
from topo.kit.serving.body import bounded_bytes
from topo.kit.threads import off_loop
from topo.kit.tls import client_context, speaks_tls
from topo.model.errors import BadInputError
from topo.model.wire import (
    REPORTS_PATH,
    SWEEPS_PATH,
    TRY_LIMIT_S,
    Report,
    ReportAnswer,
    SweepAnswer,
    SweepReport,
)

A = TypeVar("A", ReportAnswer, SweepAnswer)
MAX_ANSWER_BYTES = 64 << 10
_CONNECT_S = 5.0
_PATIENCE_S = 5.0
"""Pause before the next try if only a person, or the end of another worker, can help."""


class Trouble(StrEnum):
    """Why a report did not arrive. The values are a metric's labels; `fix` is the next step."""

    fix: str

    def __new__(cls, label: str, fix: str) -> Self:
        """Return a label with its fix."""
        trouble = str.__new__(cls, label)
        trouble._value_ = label
        trouble.fix = fix
        return trouble

    NETWORK = "network", "check --server-address and that the master runs"
    TIMEOUT = "timeout", "check the network between this node and the master"
    TLS = "tls", "check --tls-ca and the master's certificate, or --server-tls"
    TOKEN_FILE = "token-file", "check --token-file"
    UNAUTHORIZED = "unauthorized", "check --token-file against the master's worker tokens"
    FORBIDDEN = "forbidden", "check --node-name: the token belongs to another node"
    CONFLICT = (
        "conflict",
        "stop the other worker that reports this node, or give it its own name",
    )
    BUSY = "busy", "nothing to do: the master asks for patience"
    REFUSED = "refused", "are master and worker of neighbouring versions?"
    SERVER = "server", "see the master's log"
    ANSWER = "answer", "is --server-address the master's report port (10001), not its API (9001)?"


_BY_STATUS = MappingProxyType(
    {
        401: Trouble.UNAUTHORIZED,
        403: Trouble.FORBIDDEN,
        404: Trouble.ANSWER,
        409: Trouble.CONFLICT,
        429: Trouble.BUSY,
        503: Trouble.BUSY,
    }
)
_NEEDS_A_PERSON = (Trouble.FORBIDDEN, Trouble.CONFLICT, Trouble.REFUSED)


class ReportLostError(RetryLaterError):
    """A report that may not have arrived; `retry_after_s` is the least pause before the next.

    `fix` is the next step, in the master's words if it sent some: it knows more.
    """

    def __init__(
        self, trouble: Trouble, detail: str, retry_after_s: float | None = None, fix: str = ""
    ) -> None:
        self.fix = fix or trouble.fix
        super().__init__(f"{detail}; {self.fix}", retry_after_s)
        self.trouble = trouble
        self.detail = detail


class MasterConnection:
    """The master's report port. Use as an asynchronous context manager."""

    def __init__(self, url: str, *, token_file: Path | None, tls_ca: Path | None) -> None:
        self._url = url
        self._tls_ca = tls_ca
        self._token_file = token_file
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._disconnect()

    async def send(self, report: Report) -> ReportAnswer:
        """Return the master's answer within `TRY_LIMIT_S`. Raises `ReportLostError`."""
        body = report.model_dump_json(exclude_unset=True).encode()
        return await self._sent(REPORTS_PATH, body, ReportAnswer)

    async def send_sweeps(self, report: SweepReport) -> SweepAnswer:
        """Return which dumps the master wants. Raises `ReportLostError`."""
        return await self._sent(SWEEPS_PATH, report.model_dump_json().encode(), SweepAnswer)

    async def send_dump(self, port: str, digest: str, packed: bytes) -> SweepAnswer:
        """Send the packed text of a dump that the master wants. Raises `ReportLostError`."""
        path = f"{SWEEPS_PATH}/{port}/{digest}"
        return await self._sent(path, packed, SweepAnswer, "application/gzip")

    async def _sent(
        self, path: str, body: bytes, answer: type[A], content_type: str = "application/json"
    ) -> A:
        try:
            async with asyncio.timeout(TRY_LIMIT_S):
                headers = {"Content-Type": content_type, **await self._authorization()}
                content = await self._tried(path, body, headers)
        except TimeoutError:
            raise ReportLostError(Trouble.TIMEOUT, "the master does not answer") from None
        try:
            return answer.model_validate_json(content)
        except ValidationError:
            raise ReportLostError(Trouble.ANSWER, "an answer that is no report answer") from None

    async def _tried(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        try:
            session = await self._connected()
            async with session.post(
                f"{self._url}{path}", data=BytesIO(body), headers=headers, allow_redirects=False
            ) as response:
                return await self._answer(response)
        except TimeoutError:  # some of aiohttp's are client errors as well
            raise
        except aiohttp.ClientSSLError as error:
            await self._disconnect()
            raise ReportLostError(Trouble.TLS, _words(error)) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise await self._broken(error) from None

    async def _broken(self, error: Exception) -> ReportLostError:
        """Return the failure: of the network, or plain http sent to a TLS port."""
        never_stood = isinstance(error, aiohttp.ClientConnectorError)
        url = URL(self._url)
        is_plain = url.scheme == "http" and not never_stood
        if is_plain and url.host and url.port and await speaks_tls(url.host, url.port):
            return ReportLostError(Trouble.TLS, "the master speaks TLS, this worker plain http")
        if isinstance(error, aiohttp.ClientResponseError | ValueError):
            # A header that the libraries do not expect ends here, too.
            return ReportLostError(Trouble.ANSWER, "what answers does not keep to HTTP")
        return ReportLostError(Trouble.NETWORK, _words(error))

    async def _answer(self, response: aiohttp.ClientResponse) -> bytes:
        content = await bounded_bytes(response.content, MAX_ANSWER_BYTES)
        if response.status != 200:
            raise self._lost(response, content)
        if content is None:
            raise ReportLostError(Trouble.ANSWER, f"an answer over {MAX_ANSWER_BYTES} bytes")
        return content

    def _lost(self, response: aiohttp.ClientResponse, content: bytes | None) -> ReportLostError:
        status = response.status
        other = Trouble.SERVER if status >= 500 else Trouble.REFUSED
        trouble = _BY_STATUS.get(status, other)
        asked = parse_retry_after(response.headers.get("Retry-After"), time.time())
        if asked is None and trouble in _NEEDS_A_PERSON:
            asked = _PATIENCE_S
        detail, fix = _problem(content)
        what = f"status {status}: {detail}" if detail else f"status {status}"
        return ReportLostError(trouble, what, asked, "" if trouble is Trouble.ANSWER else fix)

    async def _authorization(self) -> dict[str, str]:
        """Return the header with the token. The file is read each time: tokens are renewed."""
        if self._token_file is None:
            return {}
        try:
            token = await off_loop(partial(read_token, self._token_file))
        except BadInputError as error:
            raise ReportLostError(Trouble.TOKEN_FILE, str(error)) from None
        return {"Authorization": f"Bearer {token}"}

    async def _connected(self) -> aiohttp.ClientSession:
        """Return the session; after a TLS failure a new one, in case the authority was renewed."""
        if self._session is None:
            try:
                is_https = self._url.startswith("https")
                tls = await off_loop(partial(client_context, self._tls_ca)) if is_https else True
            except BadInputError as error:
                raise ReportLostError(Trouble.TLS, str(error)) from None
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=1, ssl=tls),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            )
        return self._session

    async def _disconnect(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _problem(content: bytes | None) -> tuple[str, str]:
    """Return the detail and the fix of a problem document, each empty if absent."""
    try:
        problem = orjson.loads(content or b"")
    except orjson.JSONDecodeError:
        return "", ""
    said = problem if isinstance(problem, dict) else {}
    texts = (said.get("detail"), said.get("fix"))
    detail, fix = (text[:200] if isinstance(text, str) else "" for text in texts)
    return detail, fix


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
