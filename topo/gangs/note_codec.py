"""The JSON text of a pod's placement annotation: encoded when it is written, decoded when read.

    {"certified":true,"gang":"8c1f…","generation":7,"group":0,"hold":"hold-1","node":"n1",
     "selection":"hold-1"}

A new leader reads the decisions of its predecessor from these texts. Any other text is ignored.
Whoever may create pods can write one, so that what a text says is bounded here as what we write is,
and believed where a fact bears it out (`topo.gangs.machine.claims`). Hold and selection have to be
values of labels: one node gets the labels of several gangs in one write, which the API server
refuses as a whole.
"""

import re
from typing import Any

import orjson

from topo.gangs.machine.gang import GangId, Note, Selection
from topo.model.ids import NodeName
from topo.model.limits import MAX_PODS
from topo.placement.booking.holds import HoldId

UNPLANNED = "unplanned"
"""The only key in the annotation of a pod whose gate was opened without a plan; its value: why."""
MAX_NOTE_CHARS = 2048
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
"""A value of a label of Kubernetes that is not empty."""
_NODE_NAME = re.compile(r"[a-z0-9][-a-z0-9.]{0,252}", re.ASCII)
_MOST_GENERATIONS = 1 << 53
"""Numbers up to this are exact in every reader of JSON."""
MAX_INSIDE_CHARS = 512
"""Of `Note.inside`, which is no longer than that where a plan is made."""


def encode_note(gang: GangId, note: Note) -> str:
    """Return the annotation's text; equal notes give equal texts."""
    document = {
        "gang": gang,
        "generation": note.generation,
        "group": note.group,
        "node": note.node,
        "hold": note.hold,
        "selection": note.selection,
        "certified": note.certified,
        **({"inside": note.inside} if note.inside else {}),
        **({"over": True} if note.over else {}),
        **({"withdrawn": True} if note.withdrawn else {}),
    }
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()


def encode_unplanned(why: str) -> str:
    """Return the annotation's text of a pod whose gate is opened without a plan."""
    return orjson.dumps({UNPLANNED: why}).decode()


def decode(gang: GangId, text: str) -> tuple[Note | None, str]:
    """Return the note of a pod of this gang, and why its gate was opened without a plan.

    At most one of the two is set: None and an empty text where the annotation is not ours.
    """
    try:
        found = orjson.loads(text) if 0 < len(text) <= MAX_NOTE_CHARS else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return None, ""
    why = found.get(UNPLANNED)
    return _note(gang, found), why if isinstance(why, str) else ""


def _note(gang: GangId, found: dict[str, Any]) -> Note | None:
    if found.get("gang") != gang or not isinstance(found.get("certified"), bool):
        return None
    if not (_matches(_NODE_NAME, found.get("node")) and _matches(_LABEL_VALUE, found.get("hold"))):
        return None
    if not _matches(_LABEL_VALUE, found.get("selection")):
        return None
    if not _is_below(found.get("group"), MAX_PODS):
        return None
    if not _is_below(found.get("generation"), _MOST_GENERATIONS):
        return None
    return Note(
        node=NodeName(found["node"]),
        group=found["group"],
        hold=HoldId(found["hold"]),
        selection=Selection(found["selection"]),
        generation=found["generation"],
        certified=found["certified"],
        inside=_inside(found.get("inside")),
        over=found.get("over") is True,
        withdrawn=found.get("withdrawn") is True,
    )


def _matches(pattern: re.Pattern[str], found: object) -> bool:
    return isinstance(found, str) and pattern.fullmatch(found) is not None


def _is_below(found: object, end: int) -> bool:
    """Return whether that is a whole number from 0 to below `end`; a truth value is none."""
    return type(found) is int and 0 <= found < end


def _inside(found: object) -> str:
    return found if isinstance(found, str) and len(found) <= MAX_INSIDE_CHARS else ""
