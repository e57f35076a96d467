"""The HTTP client of the master; it raises `CliError` for expected failures."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from yarl import URL

from topo.cli.client.decoding import decode, parse_json
from topo.cli.client.failures import connection_error, problem_error
from topo.cli.client.sse import ServerEvent, events
from topo.cli.exit_codes import CliError, Exit, usage
from topo.kit.addresses import is_loopback
from topo.kit.secrets import read_token
from topo.kit.serving.body import bounded_bytes
from topo.kit.tls import client_context
from topo.model.errors import Refusal
from topo.model.rest.changes import StepDocument
from topo.model.rest.generation_id import GenerationId
from topo.model.rest.topology import TopologyDocument

TOPOLOGY_PATH = "/v1/topology"
DIFF_PATH = "/v1/topology/diff"
HISTORY_PATH = "/v1/history"
MAX_ANSWER_BYTES = 256 << 20
"""100,000 nodes with reasons are about 30 MB; anything near this is not a topology."""
MAX_PROBLEM_BYTES = 1 << 20
"""Of an answer that is a refusal: a few sentences."""
HANGING_S = 10.0
"""A master answers in milliseconds, a busy one of 10,000 nodes in seconds; without a byte in ten
seconds it hangs."""
_ANSWER_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5, sock_read=HANGING_S)
PATIENCE_S = 3.0
"""After so long without an answer the person at the terminal is told what is waited for."""
_SILENCE_S = 60.0
"""An event stream sends comments when nothing happens; a minute of silence is a dead connection."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which master to ask, and how: `token` is sent as a bearer token."""

    url: URL
    token: str | None = field(default=None, repr=False)
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A raw response, for callers that look at the status."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """One event of the stream: the changes, and the generation to resume after."""

    generation: GenerationId
    step: StepDocument


def target(url: str, token_file: Path | None, ca_file: Path | None) -> Target:
    """Return the checked target of a command; raise `CliError` or `BadInputError`."""
    if "@" in url:
        fix = "write http://HOST:9001, and give the token with --token-file"
        raise usage("credentials do not belong into an address", "--master", fix)
    try:
        parsed = URL(url if "://" in url else f"http://{url}")
        host = parsed.host
    except ValueError as error:
        raise usage(f"not a URL: {error}", "--master", "write http://HOST:9001") from None
    if parsed.query_string or parsed.fragment:
        fix = "write http://HOST:9001, and give the token with --token-file"
        raise usage("the address carries a query or a fragment", "--master", fix)
    if parsed.scheme not in {"http", "https"} or not host:
        raise usage("not an http or https URL", f"--master {url}", "write http://HOST:9001")
    token = read_token(token_file) if token_file is not None else None
    if token is not None and parsed.scheme == "http" and not is_loopback(host):
        fix = "give the master --tls-cert and --tls-key and write https://, or ask on its own "
        fix += "machine; reading needs no --token-file"
        raise usage("the token would cross the network in clear text", f"--master {url}", fix)
    return Target(parsed, token, ca_file)


@asynccontextmanager
async def connect(
    to: Target, on_waiting: Callable[[], None] = lambda: None
) -> AsyncIterator["MasterClient"]:
    """Open a client with one connection pool; nothing is sent yet."""
    headers = {"User-Agent": "topo", "Accept": "application/json"}
    if to.token is not None:
        headers["Authorization"] = f"Bearer {to.token}"
    context = client_context(to.ca_file) if to.url.scheme == "https" else True
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=headers,
        timeout=_ANSWER_TIMEOUT,
        raise_for_status=False,
    ) as session:
        yield MasterClient(to, session, on_waiting)


class MasterClient:
    """The calls that `topo` makes; every method raises `CliError` for an expected failure."""

    def __init__(
        self,
        to: Target,
        session: aiohttp.ClientSession,
        on_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_waiting` is called where an answer takes longer than a person expects."""
        self.url = to.url
        self._session = session
        self._on_waiting = on_waiting

    async def topology(self, **query: str | int | None) -> TopologyDocument:
        """Return `GET /v1/topology`; `group`, `node` and `depth` narrow it."""
        return decode(TopologyDocument, await self.document(TOPOLOGY_PATH, **query))

    async def document(self, path: str, **query: str | int | None) -> Any:
        """Return the JSON document at a path."""
        answer = await self.get(path, **query)
        return self._document(answer, f"GET {path}", Exit.REFUSED)

    async def release(self) -> str | None:
        """Return the release that the master's OpenAPI document states; None where it does not."""
        answer = await self.get("/openapi.json")
        try:
            stated = parse_json(answer.body)["info"]["version"]
        except (CliError, orjson.JSONDecodeError, KeyError, TypeError):
            return None
        return stated if isinstance(stated, str) else None

    async def content(self, path: str, **query: str | int | None) -> bytes:
        """Return the bytes at a path, whatever their format."""
        answer = await self.get(path, **query)
        if answer.status >= 300:
            raise problem_error(answer.status, answer.body, (f"GET {path}", Exit.REFUSED))
        return answer.body

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send a `POST` or `DELETE`; return the JSON document of the answer, None for an empty one.

        A body that the master finds malformed (400) is what the person at the terminal wrote.
        """
        answer = await self._called(method, self.url.joinpath(path.lstrip("/")), body)
        if answer.status < 300 and not answer.body:
            return None
        return self._document(answer, f"{method} {path}", Exit.USAGE)

    def _document(self, answer: Response, call: str, malformed: Exit) -> Any:
        if answer.status >= 300:
            raise problem_error(answer.status, answer.body, (call, malformed))
        try:
            return parse_json(answer.body)
        except orjson.JSONDecodeError:
            raise self._not_a_master(f"{call} did not answer JSON") from None

    async def get(self, path: str, **query: str | int | None) -> Response:
        """Return the raw answer at a path, whatever its status. Redirects are not followed."""
        given = {name: value for name, value in query.items() if value is not None}
        return await self._called("GET", self.url.joinpath(path.lstrip("/")).with_query(given))

    async def _called(self, method: str, url: URL, body: Any = None) -> Response:
        data = None if body is None else orjson.dumps(body)
        headers = None if body is None else {"Content-Type": "application/json"}
        waits = asyncio.get_running_loop().call_later(PATIENCE_S, self._on_waiting)
        try:
            async with self._session.request(
                method, url, data=data, headers=headers, allow_redirects=False
            ) as response:
                content = await bounded_bytes(response.content, _limit_bytes(response.status))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise await connection_error(error, self.url) from error
        finally:
            waits.cancel()
        if content is None:
            limit_bytes = _limit_bytes(response.status)
            raise self._not_a_master(f"an answer of more than {limit_bytes} bytes")
        return Response(response.status, content)

    async def changes(self, since: GenerationId) -> AsyncGenerator[ChangeEvent | None, None]:
        """Yield the changes after a generation from the event stream, None where it is forgotten.

        Ends when the master closes the stream; raises `CliError` when the connection breaks.
        """
        url = self.url.joinpath("v1/topology/events").with_query(since=str(since))
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_SILENCE_S)
        headers = {"Accept": "text/event-stream"}
        try:
            async with self._session.get(
                url, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                if response.status != 200:
                    body = await bounded_bytes(response.content, MAX_PROBLEM_BYTES) or b""
                    raise problem_error(response.status, body, ("GET events", Exit.REFUSED))
                async for event in events(response.content.iter_any()):
                    if event.event in ("change", "reset"):
                        yield None if event.event == "reset" else self._change(event)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise await connection_error(error, self.url) from error

    def _change(self, event: ServerEvent) -> ChangeEvent:
        try:
            step = decode(StepDocument, parse_json(event.data))
        except orjson.JSONDecodeError:
            raise self._not_a_master("an event is not JSON") from None
        generation = GenerationId.read(event.id)
        if generation is None:
            raise self._not_a_master("an event has no id to resume after")
        return ChangeEvent(generation, step)

    def _not_a_master(self, what: str) -> CliError:
        fix = "is this the address of a topo-master? give it with --master or TOPO_MASTER"
        return CliError(Exit.UNREACHABLE, Refusal(what, str(self.url), fix))


def _limit_bytes(status: int) -> int:
    return MAX_ANSWER_BYTES if status < 300 else MAX_PROBLEM_BYTES
