"""Bodies that cost most: a frame of a call with a hole, filled with one thing over and over.

They are made for the limits of a port: of values, or where nothing is counted, of bytes.
"""

from collections.abc import Iterator

import orjson

ELEMENTS = {
    "numbers": b"0",
    "objects": b"{}",
    "lists": b"[]",
    "texts": b'""',
    "objects of one member": b'{"a":0}',
    "escapes": b'"\\u0041\\n"',
    "containers": b'{"resources":{"limits":{"volcano.sh/vgpu-number":"1","a":0}}}',
    "owners": b'{"apiVersion":"batch/v1","kind":"Job","uid":"u","controller":true}',
}
"""What fills a list."""
HOLE = b'"\xe2\x80\xa6"'
"""Where a frame is filled: the text `…`, as an element of a list or the value of a member."""


def filled(frame: bytes, max_bytes: int, values: int, members: int) -> Iterator[tuple[str, bytes]]:
    """Yield the body of each filling, by its name; none is larger than the limits."""
    room = max_bytes - len(frame)
    for name, unit in ELEMENTS.items():
        each = unit + b","
        counted = sum(each.count(sign) for sign in (b",", b"{", b"["))
        yield name, _of(frame, each * min(room // len(each) - 1, values // counted - 40) + unit)
    most = range(min(room // 20, members - 200))
    named = (b'"%07x":"%x"' % (number, number) for number in most)
    yield "members", frame.replace(HOLE, b"{" + b",".join(named) + b"}")
    yield "a long text", frame.replace(HOLE, b'"' + b"x" * (room - 2) + b'"')
    yield "a text of escapes", frame.replace(HOLE, b'"' + b"\\n" * (room // 2 - 1) + b'"')
    yield "deep lists", frame.replace(HOLE, b"[" * 900 + b"0" + b"]" * 900)
    yield "deep objects", frame.replace(HOLE, b'{"a":' * 900 + b"0" + b"}" * 900)
    yield "digits", frame.replace(HOLE, b"0." + b"7" * (room - 2))


def _of(frame: bytes, elements: bytes) -> bytes:
    return frame.replace(HOLE, b"[" + elements + b"]")


def frames(document: object) -> Iterator[tuple[str, bytes]]:
    """Yield a frame for each list, object and text of a document: the hole is in its place."""
    for path in _places(document):
        copied = orjson.loads(orjson.dumps(document))
        at = copied
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = "…"
        yield ".".join(map(str, path)), orjson.dumps(copied)


def _places(value: object, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items: Iterator[tuple[str | int, object]] = iter(())
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    for key, each in items:
        yield (*above, key)
        yield from _places(each, (*above, key))
