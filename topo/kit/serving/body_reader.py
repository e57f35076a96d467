"""Reads the body of a request, bounds it, and interprets it: one way for every port.

    request ─ bytes within a limit ─ values counted ─┬─ small: interpreted on the event loop
                                                     └─ else in a thread, one body at a time

The caller gives a function of the bytes, which returns a small value: texts and numbers that a
decision needs, never the objects of the body. So what the loop does next does not grow with it.

Why values are counted before anything is parsed: a parser is one call of C code, during which no
other thread runs, the loop's neither, and its time follows the values rather than the bytes. 8 MiB
of `[]` take orjson up to 1.4 s, 8 MiB of ordinary text 10 ms; and 4 million empty objects have 270
MiB. Every value but the outermost comes after a `,`, a `{` or a `[` (RFC 8259, 4 and 5), so their
number bounds that of the values from above, in a hundredth of the time. A member of an object has a
`:`, and costs more than an element: each new name moves a table. Signs inside texts count, too:
limits have room for them.

Cost: O(bytes), in steps of `COUNTED_BYTES` that each keep the interpreter for less than 1 ms.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from aiohttp import web

from topo.kit.executors import QueueFullError, SingleThreadExecutor
from topo.kit.serving.bodies import Bodies
from topo.kit.serving.body import TooLargeError, body_bytes
from topo.model.errors import Refusal

COUNTED_BYTES = 256 << 10
"""A step of counting, after which other tasks of the loop have their turn."""
RETRY_S = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """What a port takes of one body.

    `max_bytes` packed and unpacked, `values` of JSON, of which `objects` are in braces and
    `members` have names. A body of at most `inline_bytes`, with `inline_opened` braces and as many
    brackets, is interpreted on the loop, which takes 2 ms at most: a thread costs 0.2 ms, and more
    while others compute. `waiting`: larger bodies that may wait for the thread. `fix` says how to
    send less.
    """

    max_bytes: int
    values: int
    objects: int
    members: int
    inline_bytes: int
    inline_opened: int = 256
    waiting: int = 256
    fix: str = "send a smaller body"


class BodyReader:
    """Reads and interprets the bodies of one port, at most one large one at a time.

    `budget_bytes`: all bodies that come or are in use together (`Bodies`); for ports that anybody
    can reach. None: the senders are known, or bodies are small.
    """

    def __init__(self, limits: BodyLimits, budget_bytes: int | None = None) -> None:
        self.limits = limits
        self.bodies = Bodies(budget_bytes) if budget_bytes is not None else None
        self._executor = SingleThreadExecutor(limits.waiting)

    @asynccontextmanager
    async def read(self, request: web.Request) -> AsyncIterator[bytes]:
        """Yield the bytes of a body; they count toward the budget until the block ends.

        Raises what `body_bytes` raises, and 503 if the body was evicted.
        """
        if self.bodies is None:
            yield await body_bytes(request, limit_bytes=self.limits.max_bytes)
            return
        async with self.bodies.read(request, self.limits.max_bytes) as content:
            yield content

    async def value(self, request: web.Request, interpret: Callable[[bytes], T]) -> T:
        """Return what `interpret` makes of the body of a request; raises as `read`, `interpreted`.

        The bytes are not kept.
        """
        async with self.read(request) as content:
            return await self.interpreted(content, interpret)

    async def interpreted(self, content: bytes, interpret: Callable[[bytes], T]) -> T:
        """Return what `interpret` makes of a body: on the loop if it is small, else in a thread.

        Raises `TooLargeError` for a body of too many values, 503 when too many large ones wait, and
        what `interpret` raises.
        """
        if self.is_small(content):
            return interpret(content)
        await self._bound(content)
        try:
            return await self._executor.run(lambda: partial(interpret, content))
        except QueueFullError:
            what = f"{self.limits.waiting} large bodies wait to be read already"
            headers = {"Retry-After": str(RETRY_S)}
            raise web.HTTPServiceUnavailable(text=what, headers=headers) from None

    def is_small(self, content: bytes) -> bool:
        """Return whether a body is interpreted on the loop; O(`inline_bytes`)."""
        return len(content) <= self.limits.inline_bytes and all(
            _has_at_most(content, sign, self.limits.inline_opened) for sign in (b"{", b"[")
        )

    async def _bound(self, content: bytes) -> None:
        """Raise `TooLargeError` where a body may have more values than the limits."""
        objects = members = values = 0
        limits = self.limits
        for at in range(0, len(content), COUNTED_BYTES):
            end = at + COUNTED_BYTES
            braces = content.count(b"{", at, end)
            objects += braces
            values += braces + content.count(b"[", at, end) + content.count(b",", at, end)
            members += content.count(b":", at, end)
            if values > limits.values or objects > limits.objects or members > limits.members:
                raise TooLargeError(self._too_many())
            await asyncio.sleep(0)

    def _too_many(self) -> Refusal:
        limits = self.limits
        what = (
            f"the body has more than {limits.values} values, {limits.objects} objects"
            f" or {limits.members} members of objects"
        )
        return Refusal(what, "body", limits.fix)


def _has_at_most(content: bytes, sign: bytes, most: int) -> bool:
    """Return whether a sign stands there so often; a tenth of the time of `bytes.count` for few."""
    at = -1
    return any((at := content.find(sign, at + 1)) < 0 for _ in range(most + 1))
