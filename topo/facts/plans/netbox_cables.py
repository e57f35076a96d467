"""NetBox's cables as its REST API answers them: two lists, joined by the ids of devices.

    /api/dcim/cables/   {"id": 7, "label": "R01-0001", "status": {"value": "connected"},
                         "a_terminations": [{"object_type": "dcim.interface", "object": {"name":
                         "eth0", "device": {"id": 3, "name": "gpu-01"}}}], "b_terminations": [...]}
    /api/dcim/devices/  {"id": 3, "rack": {"id": 1, "name": "R01"}}

A file may leave the devices out: nobody then knows the racks. A cable is read between two
interfaces; others (panels, power, several interfaces at an end) are passed over and told, and those
that are being decommissioned. Source: NetBox 4.4.10, "REST API" and the models Cable and Device.
O(size).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from topo.facts.plans.list_pages import (
    LEAVING,
    ListPages,
    add_all,
    is_json_with,
    malformed,
    passed_over,
)
from topo.facts.plans.plan import CablePlan, End, PlannedCable, checked
from topo.model.errors import Refusal

CABLES, DEVICES = "/api/dcim/cables/", "/api/dcim/devices/"
_OF_CABLES = "a_terminations"


class _Side(NamedTuple):
    """An end of a cable, and the id of its device."""

    end: End
    device: str


def recognises(text: str) -> bool:
    """Return whether the text is JSON of cables."""
    return is_json_with(text, f'"{_OF_CABLES}"')


def read(text: str) -> CablePlan | Refusal:
    """Return the plan, or why the pages are none or not all."""
    found = NetBoxCables()
    return add_all(text, found.list_of) or found.plan()


class NetBoxCables:
    """The lists of a NetBox by pages, and the plan that they make. Mutable."""

    queries: ClassVar[Mapping[str, Mapping[str, str]]] = {
        CABLES: {"ordering": "id", "fields": "id,label,status,a_terminations,b_terminations"},
        DEVICES: {"ordering": "id", "fields": "id,rack"},
    }
    """What is asked of each list. The named fields take NetBox half of the time that all take."""

    def __init__(self) -> None:
        self._cables: list[tuple[_Side, _Side, int, str]] = []
        self._passed: list[str] = []
        self._racks: dict[str, str] = {}
        self.lists: Mapping[str, ListPages] = {
            CABLES: ListPages(CABLES, self._take_cable),
            DEVICES: ListPages(DEVICES, self._take_device),
        }

    def list_of(self, page: Any) -> ListPages | Refusal:
        """Return the list that a page is of, by its first object; that of cables if it has none."""
        try:
            found = page["results"]
            return self.lists[CABLES if not found or _OF_CABLES in found[0] else DEVICES]
        except (KeyError, TypeError):
            return malformed(CABLES)

    def _take_cable(self, cable: Mapping[str, Any]) -> None:
        one, other = _side(cable["a_terminations"]), _side(cable["b_terminations"])
        status = cable.get("status") or {}
        if one is None or other is None or status.get("value") == LEAVING:
            self._passed.append(str(cable["id"]))
            return
        self._cables.append((one, other, int(cable["id"]), str(cable.get("label") or "")))

    def _take_device(self, device: Mapping[str, Any]) -> None:
        rack = device["rack"]
        self._racks[str(device["id"])] = str(rack["name"]) if rack else ""

    def plan(self) -> CablePlan | Refusal:
        """Return the plan, or why the pages are not all."""
        devices = self.lists[DEVICES]
        missing = self.lists[CABLES].missing() or (devices.missing() if devices.seen else None)
        return missing or checked(map(self._planned, self._cables), passed_over(self._passed))

    def _planned(self, cable: tuple[_Side, _Side, int, str]) -> PlannedCable:
        one, other, number, label = cable
        racks = self._racks.get(one.device, ""), self._racks.get(other.device, "")
        return PlannedCable(one.end, other.end, number, racks=racks, label=label, unit="cable")


def _side(terminations: Sequence[Mapping[str, Any]]) -> _Side | None:
    """Return the interface at an end; None where it is none, or not one alone."""
    if len(terminations) != 1 or terminations[0]["object_type"] != "dcim.interface":
        return None
    found = terminations[0]["object"]
    device = found["device"]
    end = End(str(device.get("name") or device["display"]), str(found["name"]))
    return _Side(end, str(device.get("id", "")))
