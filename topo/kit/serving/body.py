"""The bytes of the body of a request or an answer, read within limits and unpacked.

Handlers call `body_bytes` after they have identified the sender and the call; before that, a body
is neither unpacked nor stored (`connections`). So aiohttp's own unpacking is turned off: ours (RFC
9110 8.4: gzip, deflate) goes in small steps up to a limit.
"""

import asyncio
import zlib
from collections.abc import Callable, Iterable, Iterator

from aiohttp import StreamReader, web

from topo.model.errors import BadInputError, Refusal

STEP_BYTES = 64 * 1024
"""Size of one step: 0.1 ms, after which other tasks run."""
MOST_MEMBERS = 16
"""Members of one gzip file (RFC 1952 2.2). Normal ones have one; each costs 32 KiB."""
CODINGS = ("gzip", "deflate")

_HEADER = "Content-Encoding"
_GZIP_BITS = 16 + zlib.MAX_WBITS
_DEFLATED = 8
"""The method in a zlib header (RFC 1950 2.2); without the header the stream is a bare one, which
many send as `deflate`."""
BODY_S = 10.0
"""Time for a body to arrive; a slower client occupies a connection for nothing."""


def ignore_bytes(_: int) -> None:
    """Do nothing: for a caller that reads one body and needs no count."""


async def bounded_bytes(
    content: StreamReader, limit_bytes: int, on_bytes: Callable[[int], None] = ignore_bytes
) -> bytes | None:
    """Return the whole body, or None if it is larger than the limit.

    Holds at most the limit and one part, whatever `Content-Length` says and however small a packed
    answer is. Other tasks run after each part: aiohttp unpacks its whole buffer without a pause,
    and a body may come in chunks of a byte. `on_bytes` is called with the size of each part.
    """
    body = bytearray()
    while part := await content.readany():
        body += part
        on_bytes(len(part))
        if len(body) > limit_bytes:
            return None
        if not content.is_eof():
            await asyncio.sleep(0)
    return bytes(body)


class TooLargeError(BadInputError):
    """A body over the limit, packed or unpacked."""


class UnknownCodingError(BadInputError):
    """A body in an unknown coding, or in several."""


def coding_of(values: Iterable[str]) -> str:
    """Return the coding that the `Content-Encoding` headers name; empty for none.

    Raises `UnknownCodingError`.
    """
    words = [word.strip().lower() for value in values for word in value.split(",")]
    named = [word.removeprefix("x-") for word in words if word not in ("", "identity")]
    if not named:
        return ""
    if len(named) == 1 and named[0] in CODINGS:
        return named[0]
    shown = ", ".join(named)[:64]
    what = f"the body is packed as {shown!r}"
    fix = f"send it as it is, or packed once as {' or '.join(CODINGS)}"
    raise UnknownCodingError(Refusal(what, _HEADER, fix))


async def unpacked(
    packed: bytes, coding: str, limit_bytes: int, on_bytes: Callable[[int], None]
) -> bytes:
    """Return the content of a packed body; other tasks run after every `STEP_BYTES`.

    `on_bytes` is called with the size of each step. Raises `TooLargeError` as soon as the content
    exceeds the limit, and `BadInputError` for a body that is not in its coding, ends too early or
    continues after its end.
    """
    content = bytearray()
    for piece in _pieces(packed, coding):
        if content:
            await asyncio.sleep(0)
        content += piece
        on_bytes(len(piece))
        if len(content) > limit_bytes:
            raise too_large(limit_bytes)
    return bytes(content)


def too_large(limit_bytes: int) -> TooLargeError:
    """Return the error for a body over the limit."""
    what = f"the body has more than {limit_bytes} bytes"
    return TooLargeError(Refusal(what, "body", "send a smaller body"))


def _pieces(packed: bytes, coding: str) -> Iterator[bytes]:
    """Yield the content in pieces of at most `STEP_BYTES`."""
    if not packed:
        return
    bits = _window_bits(packed, coding)
    member, members, taken = zlib.decompressobj(bits), 1, 0
    waiting, piece = b"", b""
    # After a full piece the decoder may hold more output, which needs no further input.
    while waiting or taken < len(packed) or len(piece) == STEP_BYTES:
        if not waiting:
            waiting = packed[taken : taken + STEP_BYTES]
            taken += len(waiting)
        if member.eof:
            if not waiting:
                break
            members += 1
            member = zlib.decompressobj(bits)
            if coding != "gzip" or members > MOST_MEMBERS:
                raise _broken(f"goes on after its end, or has more than {MOST_MEMBERS} parts")
        try:
            piece = member.decompress(waiting, STEP_BYTES)
        except zlib.error:
            raise _broken("is not in its Content-Encoding") from None
        waiting = member.unused_data if member.eof else member.unconsumed_tail
        yield piece
    if not member.eof:
        raise _broken("ends before its Content-Encoding does")


def _window_bits(packed: bytes, coding: str) -> int:
    if coding == "gzip":
        return _GZIP_BITS
    return zlib.MAX_WBITS if packed[0] & 0x0F == _DEFLATED else -zlib.MAX_WBITS


def _broken(how: str) -> BadInputError:
    return BadInputError(Refusal(f"the body {how}", _HEADER, "send a JSON object as it is"))


async def body_bytes(
    request: web.Request,
    on_bytes: Callable[[int], None] = ignore_bytes,
    *,
    limit_bytes: int | None = None,
) -> bytes:
    """Return the unpacked body, at most `limit_bytes` packed and unpacked.

    The limit is `client_max_size` by default.

    `on_bytes` is called with the size of each stored part, packed or unpacked. Raises 408 after
    `BODY_S`. Raises `TooLargeError` (without reading, if the headers say so), `UnknownCodingError`,
    and `BadInputError` for a body that is not in its encoding or ends too early.
    """
    coding = coding_of(request.headers.getall("Content-Encoding", ()))
    limit_bytes = request.client_max_size if limit_bytes is None else limit_bytes
    if (request.content_length or 0) > limit_bytes:
        raise too_large(limit_bytes)
    try:
        async with asyncio.timeout(BODY_S):
            content = await bounded_bytes(request.content, limit_bytes, on_bytes)
            if content is None:
                raise too_large(limit_bytes)
            return await unpacked(content, coding, limit_bytes, on_bytes) if coding else content
    except TimeoutError:
        text = f"the body was not here after {BODY_S:g} s"
        raise web.HTTPRequestTimeout(text=text) from None
    except web.RequestPayloadError:
        what, fix = "the body is not in its Transfer-Encoding", "send a JSON object as it is"
        raise BadInputError(Refusal(what, "Transfer-Encoding", fix)) from None
    except ConnectionError:  # the client is gone and reads no answer
        what = "the connection ended inside the body"
        raise BadInputError(Refusal(what, "body", "send all of Content-Length")) from None
