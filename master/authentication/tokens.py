"""Files of tokens: read at the start and followed, so that a removed token ends at once.

Good lines of the file are in force, others are reported. A file that is empty, absent or no file
accepts no caller. One that cannot be read says nothing of its tokens: those that were last read
stay in force for `GRACE_S`, and then no caller is accepted, for a hidden file must not keep a
stolen token alive. While the process can open no file at all they stay in force for as long as that
lasts: else a client that uses up its descriptors would lock all callers out.
"""

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import prometheus_client as prom
import structlog
from aiohttp import web

from master.file_warnings import FileWarnings
from topo.kit.files import LOOK_S, AbsentFile, NotAFile, OutOfFiles, WatchedFile
from topo.kit.metrics import gauge
from topo.kit.threads import off_loop
from topo.kit.tokens import Identity, WorkerTokens, bearer
from topo.model.conditions.master import MasterCondition
from topo.model.errors import BadInputError, Refusal

MAX_TOKEN_FILE_BYTES = 4 << 20
"""20,000 nodes with a token of their own each are about 2 MB."""
GRACE_S = 300.0
"""A disk or a mount recovers within minutes; a revocation is delayed no longer."""
CONFIRM_S = 0.1
CONFIRMATIONS = 5
"""A change counts when the file is the same twice, `CONFIRM_S` apart, or after this many looks: an
editor leaves a file empty, cut or absent for a moment."""
LINES_NAMED = 10
NOBODY = WorkerTokens.parse("")
_EMPTY = "there is no token in the file"
_FIX = "write one token per line"

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Tokens:
    """The tokens in force. `tokens=None` with `anonymous=False` accepts no caller.

    `accepted` is called with each request whose token is accepted.
    """

    tokens: WorkerTokens | None = None
    anonymous: bool = False
    accepted: Callable[[web.Request], None] = lambda _: None

    def identify(self, request: web.Request) -> Identity | None:
        """Return whom the request speaks for, None for an unknown caller."""
        token = bearer(request.headers)
        if self.tokens is not None and token is not None:
            identity = self.tokens.identify(token)
            if identity is not None:
                self.accepted(request)
            return identity
        return Identity() if self.anonymous and self.tokens is None else None


@dataclass(frozen=True, slots=True)
class TokenFileKind:
    """Whose tokens a file holds, the flag that names it, and the code of its warning."""

    whose: str
    flag: str
    code: MasterCondition


WORKER_TOKENS = TokenFileKind("workers", "--worker-token-file", MasterCondition.WORKER_TOKEN_FILE)
API_TOKENS = TokenFileKind("writers", "--api-token-file", MasterCondition.API_TOKEN_FILE)


class TokenMetrics:
    """The number of tokens in force, and of lines with faults."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self._tokens = gauge(registry, "topo_master_tokens")
        self._refused = gauge(registry, "topo_master_token_lines_refused")

    def show(self, whose: str, tokens: WorkerTokens) -> None:
        """Set the numbers of these tokens."""
        self._tokens.labels(whose).set(len(tokens))
        self._refused.labels(whose).set(len(tokens.refused))


@dataclass(eq=False)
class TokenFile:
    """One file, the tokens in force from it, and its faults.

    Raises `BadInputError` where the file cannot be used at the start, when a person is present.
    """

    path: Path
    kind: TokenFileKind
    _: KW_ONLY
    warnings: FileWarnings
    metrics: TokenMetrics
    clock: Callable[[], float]
    _unread: Refusal | None = None
    _unread_since_s: float = 0.0

    def __post_init__(self) -> None:
        self._watched = WatchedFile(self.path, MAX_TOKEN_FILE_BYTES)
        self.tokens = Tokens(self._first())

    def _first(self) -> WorkerTokens:
        content = self._watched.poll()
        if not isinstance(content, bytes):
            raise BadInputError(content or Refusal(_EMPTY, str(self.path), _FIX))
        tokens = _parsed(content)
        if tokens.refused:
            first, more = tokens.refused[0], len(tokens.refused) - 1
            what = first.what + (f", and {more} more faults" if more else "")
            raise BadInputError(Refusal(what, f"{self.path}, {first.where}", first.fix))
        if not len(tokens):
            raise BadInputError(Refusal(_EMPTY, str(self.path), _FIX))
        self.metrics.show(self.kind.whose, tokens)
        return tokens

    async def follow(self) -> None:
        """Adopt changes of the file until cancelled: within `poll_s` and a confirmation."""
        while True:
            await asyncio.sleep(LOOK_S)
            content = await self._settled()
            if isinstance(content, bytes):
                self._read(_parsed(content))
            elif isinstance(content, AbsentFile | NotAFile):
                self._unread = None
                self._let_nobody_in(content)
            elif isinstance(content, OutOfFiles):
                self._keep(content)
            elif content is not None:
                self._lose(content)
            if self._unread is not None:
                self._keep_for_a_while(self._unread)

    async def _settled(self) -> bytes | Refusal | None:
        """Return new content of the file once it is stable; None without a change."""
        found = await off_loop(self._watched.poll)
        for _ in range(CONFIRMATIONS if found is not None else 0):
            await asyncio.sleep(CONFIRM_S)
            again = await off_loop(self._watched.poll)
            if again is None:
                break
            found = again
        return found

    def _read(self, tokens: WorkerTokens) -> None:
        self._unread = None
        if not len(tokens):
            self._let_nobody_in(Refusal(_EMPTY, str(self.path), _FIX), tokens)
            return
        self._enforce(tokens)
        if not tokens.refused:
            self.warnings.clear(self.kind.code)
            return
        named = [f"{each.where}: {each.what}" for each in tokens.refused[:LINES_NAMED]]
        if more := len(tokens.refused) - len(named):
            named.append(f"{more} more faults")
        fixes = dict.fromkeys(each.fix for each in tokens.refused[:LINES_NAMED])
        text = f"lines that do not count, beside {len(tokens)} tokens that do: {'; '.join(named)}"
        self._warn(text, "; ".join(fixes))

    def _let_nobody_in(self, why: Refusal, tokens: WorkerTokens = NOBODY) -> None:
        self._enforce(tokens)
        self._warn(f"{why.what}: nobody is let in", why.fix)

    def _keep(self, why: Refusal) -> None:
        in_force = len(self.tokens.tokens or ())
        self._warn(f"{why.what}; {in_force} tokens read before count until one can be", why.fix)

    def _lose(self, why: Refusal) -> None:
        if self._unread is None:
            self._unread_since_s = self.clock()
        self._unread = why

    def _keep_for_a_while(self, why: Refusal) -> None:
        if self.clock() - self._unread_since_s >= GRACE_S:
            self._let_nobody_in(Refusal(f"{why.what}, for {GRACE_S:g} s", why.where, why.fix))
        elif in_force := len(self.tokens.tokens or ()):
            text = f"{why.what}; {in_force} tokens read before count for {GRACE_S:g} s"
            self._warn(text, why.fix)
        else:
            self._warn(f"{why.what}: nobody is let in", why.fix)

    def _enforce(self, tokens: WorkerTokens) -> None:
        before = self.tokens.tokens
        self.tokens.tokens = tokens
        self.metrics.show(self.kind.whose, tokens)
        if before is not tokens:
            _log.info("tokens in force", whose=self.kind.whose, number=len(tokens))

    def _warn(self, text: str, fix: str) -> None:
        kind = self.kind
        self.warnings.warn(kind.code, f"{kind.flag}: {text}", fix, where=str(self.path))


def _parsed(content: bytes) -> WorkerTokens:
    return WorkerTokens.parse(content.decode("utf-8-sig", "replace"))
