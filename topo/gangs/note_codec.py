"""The JSON text of a pod's placement annotation: encoded when it is written, decoded when read.

    {"certified":true,"gang":"8c1f…","generation":7,"group":0,"hold":"hold-1","node":"n1",
     "selection":"hold-1"}

A new leader reads the decisions of its predecessor from these texts. Any other text is ignored.
"""

from typing import Any

import orjson

from topo.gangs.machine.gang import GangId, Note, Selection
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId

UNPLANNED = "unplanned"
"""The only key in the annotation of a pod whose gate was opened without a plan; its value: why."""
MAX_NOTE_CHARS = 2048
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
    texts = [found.get(key) for key in ("node", "hold", "selection")]
    numbers = [found.get(key) for key in ("group", "generation")]
    if found.get("gang") != gang or not isinstance(found.get("certified"), bool):
        return None
    if not all(isinstance(each, str) and 0 < len(each) <= 253 for each in texts):
        return None
    if not all(type(each) is int and each >= 0 for each in numbers):
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


def _inside(found: object) -> str:
    return found if isinstance(found, str) and len(found) <= MAX_INSIDE_CHARS else ""
