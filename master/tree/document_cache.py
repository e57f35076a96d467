"""A document as bytes: made once per version, only when somebody asks.

Many readers of one version cost one rendering and one compression. Both run in a thread, so that
the event loop goes on meanwhile. While its source changes all the time, a document may be served
that is a few renderings old: rendering would otherwise take the processor from its readers.
"""

import asyncio
import gzip
import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from topo.kit.threads import timed_in_thread

GZIP_LEVEL = 6
"""10,000 nodes: level 6 is within a few per cent of level 9 in size at a third of its time."""
REST_FACTOR = 2.0
"""Under constant churn the document is made again only after twice the time that it took, which
leaves the processor to those who read it."""
REST_MAX_S = 0.1
"""A rendering that something else held up must not hold up the next."""


@dataclass(frozen=True, slots=True)
class CachedDocument:
    """One rendering of a version. `tag` is a hash of its content, the same in every process."""

    version: object
    body: bytes
    tag: str
    made_s: float


S = TypeVar("S")
"""What a document is rendered from: frozen values."""


class DocumentCache(Generic[S]):
    """Renders and compresses in a thread, one at a time, never twice for one content.

    A document is made again when `version` is another than the one that it was made of, or when
    what stands in it moves by itself, after `fresh_s` seconds. `source` and `version` are called on
    the loop, `version` by every reader. `content` is what of a body makes it another for a reader.
    """

    def __init__(
        self,
        source: Callable[[], S],
        render: Callable[[S], bytes],
        version: Callable[[], object],
        *,
        content: Callable[[bytes], bytes] = bytes,
        fresh_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._render = render
        self._version = version
        self._content = content
        self._fresh_s = fresh_s
        self._clock = clock
        self._lock = asyncio.Lock()
        self._document: CachedDocument | None = None
        self._gzip: tuple[bytes, bytes] | None = None
        self._rest_until_s = 0.0

    @property
    def sizes(self) -> tuple[int, int]:
        """The bytes of the last document, plain and compressed; 0 before the first."""
        plain = len(self._document.body) if self._document is not None else 0
        return plain, len(self._gzip[1]) if self._gzip is not None else 0

    async def document(self) -> CachedDocument:
        """Return the document of this version, or one at most `REST_FACTOR` renderings old."""
        if (ready := self._current()) is not None:
            return ready
        async with self._lock:
            if (ready := self._current()) is not None:
                return ready
            make = partial(self._make, self._version(), self._source())
            document, took_s = await timed_in_thread(make)
            self._rest_until_s = self._clock() + min(REST_FACTOR * took_s, REST_MAX_S)
            self._document = document
            return document

    async def compressed(self, document: CachedDocument) -> bytes:
        """Return the document's body as gzip; the bytes are the same for the same body."""
        if self._gzip is not None and self._gzip[0] == document.body:
            return self._gzip[1]
        async with self._lock:
            if self._gzip is None or self._gzip[0] != document.body:
                zipped = await asyncio.to_thread(gzip.compress, document.body, GZIP_LEVEL, mtime=0)
                self._gzip = (document.body, zipped)
            return self._gzip[1]

    def _current(self) -> CachedDocument | None:
        document = self._document
        if document is None:
            return None
        now_s = self._clock()
        same = document.version == self._version()
        ready = same and now_s - document.made_s < self._fresh_s
        return document if ready or now_s < self._rest_until_s else None

    def _make(self, version: object, source: S) -> CachedDocument:
        made_s = self._clock()
        body = self._render(source)
        tag = hashlib.blake2b(self._content(body), digest_size=16).hexdigest()
        return CachedDocument(version, body, tag, made_s)
