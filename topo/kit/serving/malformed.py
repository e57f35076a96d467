"""Requests that are not HTTP: counted, and logged in one bounded line each, ten a minute.

aiohttp logs a traceback with the sender's bytes for each such request, and anybody can send a
million of them.
"""

import asyncio
import logging
import re
from collections.abc import Callable

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, InvalidURLError

LINES = 10
"""Lines in `SPAN_S`; the others are counted, and their number is logged at its end."""
SPAN_S = 60.0

_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9 '/-]{0,79}(?=:|\Z)")
"""aiohttp's words for a fault; after the colon come the sender's bytes, maybe a secret."""

_log = structlog.get_logger(__name__)


class MalformedRequests(logging.Logger):
    """The logger of one site's server, which replaces records of such requests.

    Runs on the event loop, as the server does. `count` is called for each request. `close` logs how
    many were not logged.
    """

    def __init__(self, site: str, count: Callable[[], object]) -> None:
        super().__init__("aiohttp.server", logging.DEBUG)  # some are logged at that level only
        self.parent = logging.getLogger("aiohttp")
        self._site = site
        self._count = count
        self._told = 0
        self._left_out = 0
        self._ending: asyncio.TimerHandle | None = None

    def handle(self, record: logging.LogRecord) -> None:
        """Handle one log record of aiohttp."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError | web.RequestPayloadError):
            sender = record.args[0] if isinstance(record.args, tuple) and record.args else None
            self._add(str(sender or "an unknown address"), fault_of(error))
        elif record.levelno > logging.DEBUG:
            super().handle(record)

    def close(self) -> None:
        """End the current period."""
        if self._ending is not None:
            self._ending.cancel()
            self._end_span()

    def _add(self, sender: str, why: str) -> None:
        self._count()
        if self._ending is None:
            self._ending = asyncio.get_running_loop().call_later(SPAN_S, self._end_span)
        if self._told < LINES:
            self._told += 1
            _log.warning("malformed request", site=self._site, sender=sender, why=why)
        else:
            self._left_out += 1

    def _end_span(self) -> None:
        if self._left_out:
            text = f"… and {self._left_out:,} more in {SPAN_S:g} s"
            _log.warning("malformed requests", site=self._site, left_out=text)
        self._told = self._left_out = 0
        self._ending = None


def fault_of(error: BaseException) -> str:
    """Return the kind of fault, with aiohttp's text unless that quotes the sender."""
    kind = type(error).__name__
    said = _WORDS.match(getattr(error, "message", ""))
    return kind if said is None or isinstance(error, InvalidURLError) else f"{kind}: {said[0]}"
