"""The terms of a gang's groups, from the annotations of a job and of its pod templates."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from topo.gangs.annotation_keys import AnnotationKeys
from topo.model.durations import parse_duration
from topo.model.errors import Refusal
from topo.model.ids import KNOWN_KINDS, NODE, Kind
from topo.model.limits import MAX_PODS
from topo.model.machine import MAX_GPUS
from topo.model.nearest import did_you_mean
from topo.placement.job.request import PlacementMode

_SIZE = re.compile(r"[0-9]{1,12}", re.ASCII)
_KIND = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SHOWN_CHARS = 32
MAX_WAIT_S = 366 * 86400.0


class Way(StrEnum):
    """What chooses a gang's nodes: this engine, or the scheduler within our constraints."""

    NOMINATION = "nomination"
    NATIVE = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTerms:
    """Groups of `group_size` GPUs, each inside one domain.

    `within` is a kind of group; all pods of the gang have to share one such group. After `wait_s`
    seconds required groups are only preferred; None for never. `way` is None if the operator's
    setting applies.
    """

    group_size: int
    mode: PlacementMode = PlacementMode.REQUIRED
    within: Kind | None = None
    wait_s: float | None = None
    way: Way | None = None


def read_terms(
    annotations: Mapping[str, object], keys: AnnotationKeys
) -> GroupTerms | Refusal | None:
    """Return the terms in the annotations; None if they name no group size.

    The `where` of a refusal is the name of the annotation.
    """
    if keys.size not in annotations:
        return None
    found: dict[str, object] = {}
    readers: dict[str, tuple[str, Callable[[str], object]]] = {
        "group_size": (keys.size, _size),
        "mode": (keys.mode, partial(_word, PlacementMode)),
        "within": (keys.within, _within),
        "wait_s": (keys.wait, _wait_s),
        "way": (keys.way, partial(_word, Way)),
    }
    for field, (name, read) in readers.items():
        if name in annotations:
            value = annotations[name]
            term = read(value.strip()) if isinstance(value, str) else _NO_TEXT
            if isinstance(term, _Flaw):
                return Refusal(f"{name} is {shown(value)}", name, term.fix)
            found[field] = term
    return GroupTerms(**found)  # type: ignore[arg-type]  # each is of its reader's type


def shown(value: object) -> str:
    """Return the start of an annotation's value in quotes, of a list or an object what it is.

    For the text of a refusal.
    """
    if isinstance(value, dict | list):
        return "a list" if isinstance(value, list) else "an object"
    return repr(str(value)[:_SHOWN_CHARS])


@dataclass(frozen=True, slots=True)
class _Flaw:
    fix: str


_NO_TEXT = _Flaw("write it in quotes: annotations are texts")


def _size(text: str) -> int | _Flaw:
    most = MAX_PODS * MAX_GPUS
    if not _SIZE.fullmatch(text) or not 1 <= int(text) <= most:
        return _Flaw(f"give the GPUs of a group, a whole number from 1 to {most}, such as 64")
    return int(text)


def _word(of: type[StrEnum], text: str) -> StrEnum | _Flaw:
    known = [str(each) for each in of]
    if text in known:
        return of(text)
    return _Flaw(did_you_mean(text, known, otherwise=f"write {' or '.join(known)}"))


def _within(text: str) -> Kind | _Flaw:
    """Return the kind; an unknown word is accepted unless it is nearly a known kind."""
    kinds = [kind for kind in KNOWN_KINDS if kind != NODE]
    if text in kinds:
        return Kind(text)
    meant = did_you_mean(text, kinds)
    if meant or not _KIND.fullmatch(text) or text == NODE:
        return _Flaw(meant or f"write a kind of group, such as {kinds[0]} or {kinds[1]}")
    return Kind(text)


def _wait_s(text: str) -> float | _Flaw:
    parsed = parse_duration(text)
    if isinstance(parsed, Refusal) or not 0 <= parsed <= MAX_WAIT_S:
        return _Flaw("write a number and a unit, such as 30s, 10m or 2h, at most a year")
    return parsed
