"""Answers that no peer should give, as bytes: for every client of ours, from one that is right.

`answers(document)` is the strategy; `{host}` in one is the host and port that were asked. Some of
what it gives is well-formed and nearly right, since nonsense alone gets no further than the first
check.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from tests.support.peers import http

_RAW = {
    "<1e999>": "1e999",
    "<digits>": "9" * 5000,
    "<deep>": "[" * 1000 + "]" * 1000,
    "<deeper>": '{"child":[' * 50_000,
    "<surrogate>": '"\\ud800"',
    "<nul>": '"a\\u0000b"',
    "<doubled>": '{"name":"a","name":"b"}',
}
"""What `json.dumps` does not write, by the text that stands for it."""
_STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 0.5, 2**31, 2**53, 2**63, 2**64, 10**18, -(10**18), 1e308, -1e308,
    1e-320, float("nan"), float("inf"), float("-inf"), "", " ", "x" * 5000, "a\nb", "\x1b[2J\u202e",
    "node-1", "Ready", "2024-02-30", "9999-12-31T23:59:59Z", "1", "NaN", [], {}, [[]], [{}], [None],
    {"": ""}, {"child": []}, *_RAW,
)  # fmt: skip
_STRANGE_KEYS = ("", "x" * 5000, "\x1b[2J\u202e", "Name", "node-1", "<surrogate>")
_STATUS = (b"200 OK",) * 12 + (
    b"100 Continue", b"101 Switching Protocols", b"103 Early Hints", b"204 No Content", b"206 P",
    b"301 M", b"302 F", b"304 Not Modified", b"307 T", b"308 P", b"400 B", b"401 U", b"403 F",
    b"404 N", b"407 P", b"409 C", b"410 G", b"413 T", b"418 T", b"429 T", b"500 I", b"502 B",
    b"503 S", b"600 x", b"999 x", b"99 x", b"000 x", b"2000 x", b"-1 x", b"abc", b"",
)  # fmt: skip
_PATIENCE = (
    b"0", b"7", b"-5", b"NaN", b"inf", b"1e999", b"9" * 400, b"9" * 5000, b"\xb2", b"1,2", b"",
    b"Fri, 31 Dec 9999 23:59:59 GMT", b"Mon, 01 Jan 0001 00:00:00 +0100",
    b"Fri, 30 Feb 2024 23:59:59 GMT", b"Fri, 31 Dec 2020 23:59:59 +" + b"9" * 30,
    b"Fri, 31 Dec 9999 23:59:59 -2359", b"Fri, 31 Dec 99999999999 23:59:59 GMT",
)  # fmt: skip
_PLACES = (
    b"", b"/", b"/v1/topology", b"..", b"?", b"#", b":", b"//", b"http:", b"http://", b"http://[::1",
    b"http://u:p@127.0.0.1/", b"//u@{host}/",
    b"http://u:p@{host}/v1/topology", b"http://127.0.0.1:99999/", b"http://a b/",
    b"http://127.0.0.1:x/", b"https://elsewhere.invalid/", b"file:///etc/passwd", b"data:,x",
    b"http://" + b"a" * 300, b"/" + b"a" * 7000, b"http://xn--a/", b"\xff\xfe", b"/%zz", b"urn:x",
)  # fmt: skip
_TYPES = (
    b"text/html",
    b"",
    b";;",
    b"application/json; charset=foo",
    b"\xff",
    b'a; b="',
    b"a" * 999,
)
_COOKIES = (b"a=b; Max-Age=" + b"9" * 400, b"\xff=\x01;;;=", b"a=b; expires=Fri, 99-Feb-9999 9:9:9")
_CODINGS = (
    b"gzip",
    b"deflate",
    b"br",
    b"zstd",
    b"identity",
    b"gzip, gzip",
    b"x",
    b"GZIP",
    b"\xff",
)
_LENGTHS = (
    b"0",
    b"5",
    b"999999",
    b"-1",
    b"x",
    b"9" * 30,
    b"9" * 5000,
    b"1e3",
    b"5\r\nContent-Length: 6",
)
_BOMB = gzip.compress(b" " * (16 << 20), 9)


def _header(name: bytes, values: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    return st.sampled_from(values).map(lambda value: name + b": " + value)


_HEADERS = st.one_of(
    _header(b"Retry-After", _PATIENCE),
    _header(b"Date", _PATIENCE),
    _header(b"Location", _PLACES),
    _header(b"Content-Type", _TYPES),
    _header(b"Set-Cookie", _COOKIES),
    _header(b"Content-Encoding", _CODINGS),
    _header(b"Transfer-Encoding", (b"chunked", b"x", b"chunked, chunked")),
    _header(b"Connection", (b"close", b"upgrade", b"\xff")),
    _header(b"Link", (b"<http://[::1>; rel=next",)),
    st.sampled_from((b"A", b": x", b" x", b"A: \0", b"X: " + b"a" * 20_000)),
    st.binary(max_size=40),
)
_SCRAPS = st.one_of(
    st.binary(max_size=200),
    st.sampled_from(
        (
            b"",
            b"null",
            b"[]",
            b"{}",
            b"NaN",
            b"\xef\xbb\xbf{}",
            b"\xff\xfe",
            b"<html>",
            b"[" * 90_000,
        )
    ),
)
_CHUNKS = (
    b"zz\r\n", b"-1\r\n", b"F" * 40 + b"\r\n", b"3\r\nab", b"3;" + b"x" * 20_000 + b"\r\nabc\r\n",
    b"0\r\nX: \xff\r\n\r\n",
)  # fmt: skip
_NO_HTTP = (
    b"", b"\r\n\r\n", b"HTTP/1.1", b"HTTP/9.9 200 OK\r\n\r\n", b"HTTP/0.9 200 OK\r\n\r\nx",
    b"\0" * 99, b"SSH-2.0-OpenSSH_9.6\r\n", b"\x16\x03\x01", b"ICY 200 OK\r\n\r\n", b"a" * 100_000,
    b"HTTP/1.1 200 \xff\xfe\r\n\r\n", b"HTTP/1.1 100 C\r\n\r\n" * 1000,
)  # fmt: skip


@st.composite
def answers(draw: st.DrawFn, document: object) -> bytes:
    """An answer as bytes, nearly right or all wrong; `document` is what a good one holds."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(_NO_HTTP) | st.binary(max_size=300))
    packed, headers = draw(st.sampled_from((_as_it_is, _as_it_is, _gzip, _deflate, _cut, _bomb)))(
        draw(st.one_of(bent(document), bent(document), _SCRAPS))
    )
    headers = (*headers, *draw(st.lists(_HEADERS, max_size=2)))
    status = draw(st.sampled_from(_STATUS))
    framing = draw(st.integers(0, 5))
    if framing == 0:
        chunks = draw(st.sampled_from(_CHUNKS))
        return http(chunks, b"Transfer-Encoding: chunked", *headers, status=status, length=b"0")
    length = draw(st.sampled_from(_LENGTHS)) if framing == 1 else None
    return http(packed, *headers, status=status, length=length)


strange = st.sampled_from(_STRANGE) | st.text(max_size=9) | st.floats()


@st.composite
def bent(draw: st.DrawFn, document: object) -> bytes:
    """The document as JSON, at most four of its places in another way than anybody expects."""
    value = {"": deepcopy(document)}
    for _ in range(draw(st.integers(0, 4))):
        holder, key = draw(st.sampled_from([*_places(value)]))
        change = draw(st.integers(0, 5))
        if change == 0 and holder is not value:
            del holder[key]
        elif change == 1 and isinstance(holder, dict) and holder is not value:
            holder[draw(st.sampled_from(_STRANGE_KEYS))] = holder.pop(key)
        else:
            holder[key] = deepcopy(draw(strange))
    text = json.dumps(value[""], ensure_ascii=draw(st.booleans()))
    for mark, raw in _RAW.items():
        text = text.replace(f'"{mark}"', raw)
    return text.encode("utf-8", "surrogatepass")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in the value with each of its keys or numbers."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


Packed = tuple[bytes, tuple[bytes, ...]]


def _as_it_is(body: bytes) -> Packed:
    return body, ()


def _gzip(body: bytes) -> Packed:
    return gzip.compress(body), (b"Content-Encoding: gzip",)


def _deflate(body: bytes) -> Packed:
    return zlib.compress(body), (b"Content-Encoding: deflate",)


def _cut(body: bytes) -> Packed:
    return gzip.compress(body)[:-9], (b"Content-Encoding: gzip",)


def _bomb(_: bytes) -> Packed:
    return _BOMB, (b"Content-Encoding: gzip",)
