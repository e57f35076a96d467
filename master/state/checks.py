"""Checks of a kept document: a state that passes them can be served, whatever wrote it.

A number that no answer can carry, or two holds of one name, would make each answer fail, or end the
process, for as long as the file exists.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from topo.model.isolation import ObjectError, attempt
from topo.model.limits import MAX_KEY_CHARS
from topo.placement.booking.holds import (
    FORMAT,
    ClockReading,
    Hold,
    HoldsMemory,
    is_namespace,
)
from topo.placement.booking.trial import booking_flaw
from topo.placement.job.request import flaw

MAX_NUMBER = 2**53 - 1
"""JSON readers keep larger numbers inexactly (RFC 8259, 6), and orjson refuses those of 64 bits."""
MAX_UNIX_S = 253_402_300_800
"""The end of the year 9999."""
MAX_TEXT_CHARS = 4096
"""Far more than any name or sentence has."""
MAX_ID_CHARS = 64
_SHOWN_CHARS = 64
T = TypeVar("T")
_HOLD, _MOMENT = TypeAdapter(Hold), TypeAdapter(ClockReading)


@dataclass(frozen=True, slots=True)
class KeptHolds:
    """The usable holds of a document, None where it has no list of them, and the first flaw.

    `unusable` has the others by id, or by number where the id is none, and why.
    """

    memory: HoldsMemory | None
    flaw: str = ""
    unusable: tuple[tuple[str, str], ...] = ()


class _Unservable:
    """Replaces a number that no answer can carry: no field accepts it."""


def plain_json(content: bytes) -> object:
    """Return the document, numbers out of bounds replaced. Raises `ValueError` where it is none."""
    try:
        return json.loads(
            content.decode(), parse_int=_whole, parse_float=_real, parse_constant=_real
        )
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def typed(kind: TypeAdapter[T], document: object) -> T:
    """Return a document of `plain_json` without `text_flaw` as this type. Raises `ValidationError`.

    Strict: a text with digits is no number; it would pass all bounds of numbers.
    """
    return kind.validate_json(json.dumps(document, default=_as_nothing), strict=True)


def text_flaw(document: object) -> str:
    """Return what is wrong with a text in a document; empty if nothing is. O(document)."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
            return f"a text has more than {MAX_TEXT_CHARS} characters"
        elif isinstance(value, str) and not (value.isascii() or _is_unicode(value)):
            return "a text has half of a character"
    return ""


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def first_finding(error: ValidationError) -> str:
    """Return the first error and where it is."""
    finding = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part)[:_SHOWN_CHARS] for part in finding["loc"]) or "the document"
    return f"{finding['msg']} (at {where})"


def kept_holds(document: object) -> KeptHolds:
    """Return the holds in that part of a document, each checked separately."""
    if document is None:
        return KeptHolds(None)
    if not isinstance(document, dict) or not isinstance(document.get("holds"), list):
        return KeptHolds(None, "there is no list of holds (at holds)")
    if document.get("format") != FORMAT:
        shown = str(document.get("format"))[:_SHOWN_CHARS]
        return KeptHolds(None, f"its holds have format {shown}, this version reads {FORMAT}")
    good: dict[str, Hold] = {}
    keys: set[str | None] = set()
    flaws: list[str] = []
    unusable: list[tuple[str, str]] = []
    for number, entry in enumerate(document["holds"], start=1):
        hold = _hold_alone(entry)
        if isinstance(hold, Hold) and _is_taken(hold, good, keys):
            hold = "an earlier one has its id or key"
        if isinstance(hold, str):
            flaws.append(f"hold {number} is unusable: {hold}")
            unusable.append((_title(entry, number), hold))
        else:
            good[hold.id] = hold
            keys.add(hold.wish.key)
    moment = _moment(document.get("saved"))
    if isinstance(moment, str):
        flaws.append(moment)
        moment = None
    more = f", and {len(flaws) - 1} more" if len(flaws) > 1 else ""
    memory = HoldsMemory(FORMAT, tuple(good.values()), moment)
    return KeptHolds(memory, flaws[0] + more if flaws else "", tuple(unusable))


def _is_taken(hold: Hold, good: Mapping[str, Hold], keys: Collection[str | None]) -> bool:
    return hold.id in good or (hold.wish.key is not None and hold.wish.key in keys)


def _title(document: object, number: int) -> str:
    """Return the id of an unusable hold, or its number in the document."""
    found = document.get("id") if isinstance(document, dict) else None
    return found if isinstance(found, str) and _is_name(found, MAX_ID_CHARS) else f"number {number}"


def _hold_alone(document: object) -> Hold | str:
    """Return a hold that can be served, or what is wrong with it, be it an error of ours."""
    found = attempt(lambda: _hold(document))
    return f"checking it raised {found}" if isinstance(found, ObjectError) else found


def _hold(document: object) -> Hold | str:
    """Return a hold that can be served, or what is wrong with it."""
    if wrong := text_flaw(document):
        return wrong
    try:
        hold = typed(_HOLD, document)
    except ValidationError as error:
        return first_finding(error)
    return next(_flaws(hold), "") or booking_flaw(hold) or hold


def _moment(document: object) -> ClockReading | str | None:
    if document is None:
        return None
    if wrong := text_flaw(document):
        return f"{wrong} (at holds.saved)"
    try:
        moment = typed(_MOMENT, document)
    except ValidationError as error:
        return f"{first_finding(error)} of holds.saved"
    sound = 0 <= moment.unix_s <= MAX_UNIX_S and 0 <= moment.clock_s <= MAX_UNIX_S
    return moment if sound and len(moment.boot) <= MAX_ID_CHARS else "holds.saved is not a moment"


def _flaws(hold: Hold) -> Iterator[str]:
    """Yield what in a hold no master writes, lazily: callers stop at the first."""
    wish, request = hold.wish, hold.wish.request
    for name, time_s in (("created_s", hold.created_s), ("deadline_s", hold.deadline_s)):
        if time_s is not None and not 0 <= time_s <= MAX_UNIX_S:
            yield f"{name} is {time_s:g}, no Unix time"
    if not 0 < wish.hold_s <= MAX_UNIX_S:
        yield f"hold_s is {wish.hold_s:g}"
    if not _is_name(hold.id, MAX_ID_CHARS):
        yield "its id is none"
    if wish.key is not None and not _is_name(wish.key, MAX_KEY_CHARS):
        yield "its key is none"
    if wish.namespace and not is_namespace(wish.namespace):
        yield "its namespace is none"
    if (refused := flaw(request)) is not None:
        yield refused.what
    # Pods that join a gang are parts of its groups: one of the first and two of the last, say.
    sizes = [sum(pods for _, pods in group.pods) for group in hold.groups]
    is_whole = sum(sizes) == request.pods and max(sizes, default=0) <= request.pods_per_group
    if not is_whole or any(not n for group in hold.groups for _, n in group.pods):
        yield "its groups are not those of its request"
    places, slack = hold.places, dict(hold.slack)
    if len(slack) < len(hold.slack) or any(
        not 0 < gpus <= places[node] * request.gpus_per_pod for node, gpus in slack.items()
    ):
        yield "its slack is not of its places"


def _is_name(text: str, most_chars: int) -> bool:
    return 0 < len(text) <= most_chars and text.isprintable()


def _as_nothing(_unservable: object) -> object:
    """Return a value that no type accepts, in place of a number out of bounds."""
    return {"": None}


def _whole(text: str) -> int | _Unservable:
    if len(text) > len(str(MAX_NUMBER)):
        return _Unservable()
    number = int(text)
    return number if 0 <= number <= MAX_NUMBER else _Unservable()


def _real(text: str) -> float | _Unservable:
    number = float(text)
    return number if abs(number) <= MAX_NUMBER else _Unservable()
