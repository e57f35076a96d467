"""The folder in which a tree of sysfs stands: `/sys`, or that of a host whose files were copied."""

from collections.abc import Iterable

from topo.facts.reading.text import WHOLE_TEXT, shorten
from topo.model.errors import Refusal

_NAMED = 4


def conflict(roots: Iterable[str]) -> Refusal | None:
    """Return why lines below these roots are not one host's: there is more than one root.

    `grep -r state node-*/sys/class/infiniband` has a line of each host for each of its devices.
    """
    found = list(dict.fromkeys(roots))
    if len(found) < 2:
        return None
    shown = ", ".join(root or "no folder" for root in found[:_NAMED])
    named = shorten(shown, 80) + (", …" if len(found) > _NAMED else "")
    what = f"the lines are of {len(found)} trees, so of several hosts ({named})"
    return Refusal(what, WHOLE_TEXT, "give the lines of one of them")
