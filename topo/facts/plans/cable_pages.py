"""NetBox's cables as its REST API answers them: `GET /api/dcim/cables/`, one page or all.

    {"count": 2, "next": null, "results": [{"id": 7, "label": "R01-0001", "status": {"value":
     "connected"}, "a_terminations": [{"object_type": "dcim.interface", "object": {"name": "eth0",
     "device": {"name": "gpu-01"}}}], "b_terminations": [...]}]}

Pages stand one after another, as curl appends them; together they have to have as many cables as
the first counts, so that a list that was cut off between pages is refused. A cable is read between
two interfaces; others (panels, power, several interfaces at an end) are passed over and told, and
those that are being decommissioned. Source: NetBox 4, "REST API" and the model Cable. O(size).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from topo.facts.plans.plan import CablePlan, End, PlannedCable, checked
from topo.model.errors import Refusal

_MARK = '"a_terminations"'
_BLANK = re.compile(r"\s*")
_LEAVING = "decommissioning"
_FIX = "give all pages of /api/dcim/cables/, one after another: the first asks ?limit=1000"
_MALFORMED = Refusal("these are no cables as NetBox's API answers them", "the pages", _FIX)


def recognises(text: str) -> bool:
    """Return whether the text is JSON of cables."""
    return text.lstrip("\ufeff \t\r\n").startswith("{") and _MARK in text


def read(text: str) -> CablePlan | Refusal:
    """Return the plan, or why the pages are none or not all."""
    found = NetBoxPages()
    try:
        for page in _pages(text.lstrip("\ufeff")):
            if (refused := found.add(page)) is not None:
                return refused
    except json.JSONDecodeError as error:
        return Refusal("this is no whole JSON", f"line {error.lineno}", _FIX)
    except RecursionError:
        return _MALFORMED
    return found.plan()


class NetBoxPages:
    """Pages in their order, and the plan that they make together. Mutable."""

    def __init__(self) -> None:
        self._cables: list[PlannedCable] = []
        self._passed: list[str] = []
        self._ids: set[int] = set()
        self._count = 0
        self.is_last = False
        """Whether no page follows the last one."""

    @property
    def seen(self) -> int:
        """How many cables the pages had so far."""
        return len(self._ids)

    def add(self, page: Any) -> Refusal | None:
        """Take the next page; return why it is none."""
        try:
            self._count = self._count if self._ids else int(page["count"])
            for cable in page["results"]:
                if cable["id"] in self._ids:
                    what = f"cable {int(cable['id'])} is there twice: the list changed meanwhile"
                    return Refusal(what, "the pages", "read all pages again")
                self._ids.add(cable["id"])
                if (made := _cable(cable, self._passed)) is not None:
                    self._cables.append(made)
            self.is_last = page["next"] is None
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
            return _MALFORMED
        return None

    def plan(self) -> CablePlan | Refusal:
        """Return the plan, or why the pages are not all."""
        if self.seen != self._count or not self.is_last:
            what = f"{self.seen} of {self._count} cables: pages are missing"
            return Refusal(what, "the pages", _FIX)
        return checked(self._cables, _passed_over(self._passed))


def _pages(text: str) -> Iterator[Mapping[str, Any]]:
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        page, end = decoder.raw_decode(text, at)
        yield page
        blank = _BLANK.match(text, end)
        at = end if blank is None else blank.end()


def _cable(cable: Mapping[str, Any], passed: list[str]) -> PlannedCable | None:
    """Return the cable, None for one that is passed over, whose id is noted."""
    one, other = _end(cable["a_terminations"]), _end(cable["b_terminations"])
    status = cable.get("status") or {}
    if one is None or other is None or status.get("value") == _LEAVING:
        passed.append(str(cable["id"]))
        return None
    label = str(cable.get("label") or "")
    return PlannedCable(one, other, int(cable["id"]), label=label, unit="cable")


def _end(terminations: Sequence[Mapping[str, Any]]) -> End | None:
    """Return the interface at an end; None where it is none, or not one alone."""
    if len(terminations) != 1 or terminations[0]["object_type"] != "dcim.interface":
        return None
    found = terminations[0]["object"]
    device = found["device"]
    return End(str(device.get("name") or device["display"]), str(found["name"]))


def _passed_over(ids: Sequence[str]) -> Iterator[str]:
    if ids:
        shown = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
        what = "are not between two interfaces, or are being decommissioned"
        yield f"{len(ids)} cables {what} (cable {shown}): panels are not followed"
