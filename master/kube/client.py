"""Calls to the API server: authenticated, bounded in time, size and rate, every status checked.

Bodies are bytes. A call returns the body of a 2xx answer or raises `KubeError`. Calls are not
logged.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol

import aiohttp
from aiohttp import http_exceptions
from yarl import URL

from master.kube.credentials.access import Access
from master.kube.credentials.config import KubeConfig, access
from master.kube.errors import Failure, KubeError, error_of_answer
from master.kube.server_clock import ServerClock
from topo.kit.serving.body import bounded_bytes
from topo.kit.threads import off_loop
from topo.model.errors import BadInputError, BrokenInvariantError

MAX_ANSWER_BYTES = 64 << 20
"""A page of 250 nodes has about 4 MB."""
MAX_CONNECTIONS = 256
CONNECT_S = 5.0
LINE_BUFFER_BYTES = 2 << 20
"""A line may be twice as long. Source: etcd's limit of a request, 1.5 MiB."""
_MAX_REFUSAL_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. `timeout_s` limits the exchange; for a watch, the time to the first byte.

    An `urgent` call skips the limit of requests per second, as renewals of a lease must.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    timeout_s: float = 10.0
    urgent: bool = False


class Caller(Protocol):
    """A client of the API server, such as `KubeClient`."""

    async def call(self, call: Call) -> bytes:
        """Send the request; return the body of the 2xx answer. Raises `KubeError`."""
        ...


async def unlimited() -> None:
    """Return at once: the `rate` of a client without a limit."""


@dataclass(eq=False)
class KubeClient:
    """The client of one API server. `rate` waits until one more request is allowed.

    `observe` is called after each exchange with the method and the status, None without an answer.
    """

    config: KubeConfig
    _: KW_ONLY
    rate: Callable[[], Awaitable[None]] = unlimited
    observe: Callable[[str, int | None], None] = lambda _method, _status: None
    clock: Callable[[], float] = time.monotonic
    _access: Access | None = None
    _session: aiohttp.ClientSession | None = None
    _tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self.server_clock = ServerClock(clock=self.clock)

    async def open(self) -> None:
        """Read the configuration without calling the server. Raises `BadInputError`."""
        found = await access(self.config, self.clock)
        await found.credentials.header()
        self._tls = await off_loop(found.tls)
        self._access = found
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Packing costs the server more than the network of a cluster does.
            headers={"User-Agent": "topo-master", "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            read_bufsize=LINE_BUFFER_BYTES,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    @property
    def server(self) -> str:
        """The address of the API server; empty before `open`."""
        return str(self._access.server) if self._access is not None else ""

    async def call(self, call: Call) -> bytes:
        """Send the request; return the body of the 2xx answer. Raises `KubeError`."""
        if not call.urgent:
            await self.rate()
        with self._translated_errors(call):
            async with asyncio.timeout(call.timeout_s), self._answer(call) as response:
                body = await bounded_bytes(response.content, MAX_ANSWER_BYTES)
        if body is None:
            what = f"{_request_name(call)}: the answer exceeds {MAX_ANSWER_BYTES} bytes"
            raise KubeError(what, failure=Failure.TOO_LARGE)
        return body

    @asynccontextmanager
    async def lines(self, call: Call, *, idle_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield an iterator over the lines of a 2xx answer, each within `idle_s` of the last.

        The iterator ends with the answer. Opening and iterating raise `KubeError`.
        """
        async with AsyncExitStack() as stack:
            with self._translated_errors(call):
                async with asyncio.timeout(call.timeout_s):
                    response = await stack.enter_async_context(self._answer(call))
            yield self._lines(call, response.content, idle_s)

    async def _lines(
        self, call: Call, content: aiohttp.StreamReader, idle_s: float
    ) -> AsyncIterator[bytes]:
        while True:
            with self._translated_errors(call):
                async with asyncio.timeout(idle_s):
                    line = await content.readline()
            if not line:
                return
            if not line.endswith(b"\n"):
                raise KubeError(f"{_request_name(call)}: the answer broke off", failure=Failure.CUT)
            yield line

    @asynccontextmanager
    async def _answer(self, call: Call) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield a 2xx answer; retry once with new credentials after a 401."""
        for is_last in (False, True):
            session, known = self._require_open()
            async with session.request(
                call.method,
                URL(str(known.server).rstrip("/") + call.path, encoded=True).with_query(call.query),
                data=call.body,
                headers=await _headers(known, call),
                allow_redirects=False,
                ssl=await self._context(known),
                server_hostname=known.server_name,
                proxy=known.proxy,
            ) as response:
                self.observe(call.method, response.status)
                if 200 <= response.status < 300:
                    self.server_clock.observe(response.headers.get("Date"))
                    yield response
                    return
                if response.status == 401:
                    known.credentials.invalidate()
                    self._tls = None
                if response.status != 401 or is_last:
                    body = await bounded_bytes(response.content, _MAX_REFUSAL_BYTES)
                    raise error_of_answer(response.status, response.headers, body or b"")

    def _require_open(self) -> tuple[aiohttp.ClientSession, Access]:
        if self._session is None or self._access is None:
            raise BrokenInvariantError("a call to Kubernetes before the client was opened")
        return self._session, self._access

    async def _context(self, known: Access) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = await off_loop(known.tls)
        return self._tls

    @contextmanager
    def _translated_errors(self, call: Call) -> Iterator[None]:
        """Turn the exceptions of libraries into a `KubeError`."""
        try:
            yield
        except KubeError:
            raise
        except Exception as error:
            failure, what = _failure(error)
            # The files of certificates may have been renewed since they were read; a server that
            # refuses ours just ends the connection.
            self._tls = None
            self.observe(call.method, None)
            raise KubeError(f"{_request_name(call)}: {what}", failure=failure) from error


async def connect(
    config: KubeConfig, rate: Callable[[], Awaitable[None]] = unlimited
) -> KubeClient:
    """Return an opened client, which the caller closes. Raises `BadInputError`."""
    client = KubeClient(config, rate=rate)
    await client.open()
    return client


async def _headers(known: Access, call: Call) -> Mapping[str, str]:
    headers = {"Accept": call.accept}
    if call.body is not None:
        headers["Content-Type"] = call.content_type
    if (authorization := await known.credentials.header()) is not None:
        headers["Authorization"] = authorization
    return headers


def _request_name(call: Call) -> str:
    return f"{call.method} {call.path}"


def _failure(error: Exception) -> tuple[Failure, str]:
    """Return the kind of failure and a text without content of the answer; reraise others."""
    for types, failure, words in _FAILURES:
        if isinstance(error, types):
            return failure, words(error)
    raise error


def _tls_reason(error: Exception) -> str:
    cause: Any = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    why = getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or str(cause)
    return f"no trusted connection: {why}"


def _os_reason(error: Exception) -> str:
    cause: Any = getattr(error, "os_error", error)
    why = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return f"no connection: {why}"


_FAILURES: tuple[tuple[tuple[type[Exception], ...], Failure, Callable[[Exception], str]], ...] = (
    ((BadInputError,), Failure.CREDENTIALS, str),
    ((aiohttp.ClientSSLError, ssl.SSLError), Failure.TLS, _tls_reason),
    ((TimeoutError,), Failure.TIMEOUT, lambda _: "nothing came in time"),
    (
        (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError),
        Failure.CUT,
        lambda _: "the answer broke off",
    ),
    (
        (http_exceptions.LineTooLong,),
        Failure.TOO_LARGE,
        lambda _: f"a line exceeds {2 * LINE_BUFFER_BYTES} bytes",
    ),
    (
        (aiohttp.ClientResponseError, http_exceptions.HttpProcessingError, ValueError),
        Failure.MALFORMED,
        lambda _: "what answers does not keep to HTTP",
    ),
    ((aiohttp.ClientError, OSError), Failure.CONNECT, _os_reason),
)
"""The first match counts: some errors of the libraries belong to several kinds."""
