"""A pod's note as the text of its annotation, and back.

    {"certified":true,"gang":"8c1f…","generation":7,"group":0,"hold":"hold-1","node":"n1",
     "selection":"hold-1"}

Who leads next reads in it what the one before had decided. A note that is not ours says nothing.
"""

from typing import Any

import orjson

from topo.gangs.machine.gang import GangId, Note, Selection
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId

UNPLANNED = "unplanned"
"""The only word in the annotation of a pod whose gate was opened without a plan: why."""
MAX_NOTE_CHARS = 2048


def written(gang: GangId, note: Note) -> str:
    """The annotation's text; equal notes give equal texts."""
    document = {
        "gang": gang,
        "generation": note.generation,
        "group": note.group,
        "node": note.node,
        "hold": note.hold,
        "selection": note.selection,
        "certified": note.certified,
        **({"over": True} if note.over else {}),
    }
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()


def unplanned(why: str) -> str:
    """The annotation's text of a pod that its scheduler places alone."""
    return orjson.dumps({UNPLANNED: why}).decode()


def why_unplanned(text: str) -> str:
    """Why the gate was opened without a plan; empty where it was not."""
    why = _document(text).get(UNPLANNED, "")
    return why if isinstance(why, str) else ""


def read(gang: GangId, text: str) -> Note | None:
    """The note of a pod of the gang; None where the text is none, or of another gang."""
    found = _document(text)
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
        over=found.get("over") is True,
    )


def _document(text: str) -> dict[str, Any]:
    try:
        found = orjson.loads(text) if len(text) <= MAX_NOTE_CHARS else None
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}
