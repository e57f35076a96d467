"""Files of tokens: read at the start, taken up again when they change."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog
from aiohttp import web

from topo.kit.files import WatchedFile, read_bounded
from topo.kit.tokens import Identity, WorkerTokens, bearer
from topo.model.errors import BadInputError, Refusal

MAX_TOKEN_FILE_BYTES = 4 << 20
"""20,000 nodes with a token of their own each are about 2 MB."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Tokens:
    """The tokens in force. `tokens=None` with `anonymous=False` lets nobody in.

    `accepted` is called with each request whose token is one of them.
    """

    tokens: WorkerTokens | None
    anonymous: bool = False
    accepted: Callable[[web.Request], None] = lambda _: None

    def identify(self, request: web.Request) -> Identity | None:
        """Whom the request speaks for; None is for nobody known."""
        token = bearer(request.headers)
        if self.tokens is not None and token is not None:
            identity = self.tokens.identify(token)
            if identity is not None:
                self.accepted(request)
            return identity
        return Identity() if self.anonymous and self.tokens is None else None


def read_tokens(path: Path | None, *, anonymous: bool = False) -> Tokens:
    """The tokens of a file, if there is one; raises `BadInputError`."""
    if path is None:
        return Tokens(None, anonymous)
    tokens = _parsed(path, read_bounded(path, MAX_TOKEN_FILE_BYTES))
    if isinstance(tokens, Refusal):
        raise BadInputError(tokens)
    return Tokens(tokens, anonymous)


def _parsed(path: Path, content: bytes | Refusal) -> WorkerTokens | Refusal:
    if isinstance(content, Refusal):
        return content
    tokens = WorkerTokens.parse(content.decode("utf-8", "replace"))
    if isinstance(tokens, Refusal):
        return Refusal(tokens.what, f"{path}, {tokens.where}", tokens.fix)
    return tokens


def token_reload(tokens: Tokens, path: Path, whose: str) -> Callable[[], None]:
    """What to do every so often: take up the token file's new content, keep the last good one.

    `whose` tokens they are is said in the log.
    """
    watched = WatchedFile(path, MAX_TOKEN_FILE_BYTES)
    watched.poll()

    def reload() -> None:
        content = watched.poll()
        if content is None:
            return
        found = _parsed(path, content)
        if isinstance(found, Refusal):
            _log.warning(f"{whose} tokens not reloaded", reason=str(found))
            return
        tokens.tokens = found
        _log.info(f"{whose} tokens reloaded", file=str(path))

    return reload
