"""State files that masters wrote, damaged: bytes lost, changed or moved, and values replaced."""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

NASTY: tuple[Any, ...] = (
    2**63,
    2**64,
    10**400,
    -1,
    -(2**70),
    2**53 - 1,
    0,
    1e308,
    -1e308,
    5e-324,
    float("nan"),
    float("inf"),
    0.5,
    None,
    True,
    "",
    "x" * 5000,
    "9" * 5000,
    "9" * 20,
    "\ud800",
    "a\0b\n\x1b[2J",
    "../../etc",
    [],
    {},
    [[]],
    [None],
    {"format": 1},
)
_LAST = 1 << 30


def damaged(document: bytes, seed: int) -> bytes:
    """The document with one to three damages, the same for the same seed."""
    random = Random(seed)  # noqa: S311 - examples, no secrets
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        damage = _bytes_damaged if random.random() < 0.25 else _value_damaged
        document = damage(document, random)
    return document


def _bytes_damaged(document: bytes, random: Random) -> bytes:
    """Cut off, a byte changed, or a piece of it put in another place."""
    at, other = (random.randrange(len(document) + 1) for _ in range(2))
    match random.randrange(4):
        case 0:
            return document[:at]
        case 1:
            return document[:at] + bytes([random.randrange(256)]) + document[at + 1 :]
        case 2:
            piece = document[other : other + random.choice((1, 8, 64, _LAST))]
            return document[:at] + piece + document[at:]
        case _:
            return document[:at] + document[at + random.choice((1, 8, 64)) :]


def _value_damaged(document: bytes, random: Random) -> bytes:
    """One value replaced by a nasty one or by another of the document, left out, or doubled."""
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        return document
    places = list(_places(parsed))
    if not places:
        return document
    inside, key = random.choice(places)
    match random.randrange(5):
        case 0 | 1:
            inside[key] = copy.deepcopy(random.choice(NASTY))
        case 2:
            other, other_key = random.choice(places)
            inside[key] = copy.deepcopy(other[other_key])
        case 3:
            del inside[key]
        case _ if isinstance(inside, list):
            inside.append(copy.deepcopy(inside[key]))
        case _:
            inside[key] = _nested(inside[key], random.choice((1, 5, 300, 3000)))
    try:
        return json.dumps(parsed).encode()
    except RecursionError:
        return b"[" * 5000 + document


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place for a value in a document: what it is in, and its key or number there."""
    left = [value]
    while left:
        inside = left.pop()
        keys = inside.keys() if isinstance(inside, dict) else range(len(inside))
        for key in list(keys):
            yield inside, key
            if isinstance(inside[key], dict | list):
                left.append(inside[key])
