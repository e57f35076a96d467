"""NetBox's cables as its REST API answers them: `GET /api/dcim/cables/`, one page or all.

    {"count": 2, "next": null, "results": [{"id": 7, "label": "R01-0001", "status": {"value":
     "connected"}, "a_terminations": [{"object_type": "dcim.interface", "object": {"name": "eth0",
     "device": {"name": "gpu-01"}}}], "b_terminations": [...]}]}

A cable is read between two interfaces; others (panels, power, several interfaces at an end) are
passed over and told, and those that are being decommissioned. Source: NetBox 4.4.10, "REST API" and
the model Cable. O(size).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from topo.facts.plans.list_pages import LEAVING, ListPages, add_all, is_json_with, passed_over
from topo.facts.plans.plan import CablePlan, End, PlannedCable, checked
from topo.model.errors import Refusal

CABLES = "/api/dcim/cables/"
_MARK = '"a_terminations"'


def recognises(text: str) -> bool:
    """Return whether the text is JSON of cables."""
    return is_json_with(text, _MARK)


def read(text: str) -> CablePlan | Refusal:
    """Return the plan, or why the pages are none or not all."""
    found = NetBoxCables()
    return add_all(text, lambda _: found.lists[CABLES]) or found.plan()


class NetBoxCables:
    """The cables of a NetBox by pages, and the plan that they make. Mutable."""

    queries: ClassVar[Mapping[str, Mapping[str, str]]] = {
        CABLES: {"ordering": "id", "fields": "id,label,status,a_terminations,b_terminations"}
    }
    """What is asked of each list. The named fields take NetBox half of the time that all take."""

    def __init__(self) -> None:
        self._cables: list[PlannedCable] = []
        self._passed: list[str] = []
        self.lists: Mapping[str, ListPages] = {CABLES: ListPages(CABLES, self._take)}

    def _take(self, cable: Mapping[str, Any]) -> None:
        one, other = _end(cable["a_terminations"]), _end(cable["b_terminations"])
        status = cable.get("status") or {}
        if one is None or other is None or status.get("value") == LEAVING:
            self._passed.append(str(cable["id"]))
            return
        label = str(cable.get("label") or "")
        self._cables.append(PlannedCable(one, other, int(cable["id"]), label=label, unit="cable"))

    def plan(self) -> CablePlan | Refusal:
        """Return the plan, or why the pages are not all."""
        missing = self.lists[CABLES].missing()
        return missing or checked(self._cables, passed_over(self._passed))


def _end(terminations: Sequence[Mapping[str, Any]]) -> End | None:
    """Return the interface at an end; None where it is none, or not one alone."""
    if len(terminations) != 1 or terminations[0]["object_type"] != "dcim.interface":
        return None
    found = terminations[0]["object"]
    device = found["device"]
    return End(str(device.get("name") or device["display"]), str(found["name"]))
