"""Nautobot's cables as its REST API answers them: five lists, joined by the ids of their objects.

A cable has the ids of its ends and of its status, an interface its name and the id of its device:

    /api/dcim/cables/      {"id": "016d…", "object_type": "dcim.cable", "label": "R29-7", "status":
                            {"id": "e052…"}, "termination_a_type": "dcim.interface",
                            "termination_a_id": "947f…", "termination_b_type": …}
    /api/dcim/interfaces/  {"id": "947f…", "object_type": "dcim.interface", "name": "mlx5_7",
                            "device": {"id": "1266…"}}
    /api/dcim/devices/     {"id": "1266…", "object_type": "dcim.device", "name": "gpu-029",
                            "rack": {"id": "77b0…"}}
    /api/dcim/racks/       {"id": "77b0…", "object_type": "dcim.rack", "name": "R29"}
    /api/extras/statuses/  {"id": "e052…", "object_type": "extras.status", "name": "Connected"}

With `depth=2` a cable alone would say it all, but 32 kB of it, and Nautobot needs fifty times as
long. A cable is read between two interfaces; others (panels, power, breakouts) are passed over and
told, and those that are being decommissioned. A file may leave the racks out. Source: Nautobot
3.2.7, "REST API" and its answers. O(size).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from topo.facts.plans.list_pages import (
    LEAVING,
    ListPages,
    add_all,
    is_json_with,
    malformed,
    passed_over,
)
from topo.facts.plans.netbox_cables import CABLES, DEVICES
from topo.facts.plans.plan import CablePlan, End, PlannedCable, checked
from topo.model.errors import Refusal

MARK = '"termination_a_type"'
"""What cables of Nautobot have, and those of NetBox from 3.3 on have not."""
_INTERFACES = "/api/dcim/interfaces/"
_RACKS = "/api/dcim/racks/"
_STATUSES = "/api/extras/statuses/"
_PATHS = {
    "dcim.cable": CABLES,
    "dcim.interface": _INTERFACES,
    "dcim.device": DEVICES,
    "dcim.rack": _RACKS,
    "extras.status": _STATUSES,
}


class _Cable(NamedTuple):
    """A cable, the id of its status, those of its ends: empty where one is no interface."""

    id: str
    label: str
    status: str
    one: str
    other: str


def recognises(text: str) -> bool:
    """Return whether the text is JSON with cables of Nautobot."""
    return is_json_with(text, MARK)


def read(text: str) -> CablePlan | Refusal:
    """Return the plan, or why the pages of the four lists, in any order, are none or not all."""
    found = NautobotCables()
    return add_all(text, found.list_of) or found.plan()


class NautobotCables:
    """The lists of a Nautobot by pages, and the plan that they make. Mutable."""

    queries: ClassVar[Mapping[str, Mapping[str, str]]] = {
        CABLES: {"sort": "id"},
        _INTERFACES: {"sort": "id", "has_cable": "true"},
        DEVICES: {"sort": "id"},
        _RACKS: {"sort": "id"},
        _STATUSES: {"sort": "id"},
    }
    """What is asked of each list."""

    def __init__(self) -> None:
        self._cables: list[_Cable] = []
        self._interfaces: dict[str, tuple[str, str]] = {}
        self._devices: dict[str, tuple[str, str]] = {}
        self._racks: dict[str, str] = {}
        self._statuses: dict[str, str] = {}
        self.lists: Mapping[str, ListPages] = {
            CABLES: ListPages(CABLES, self._take_cable),
            _INTERFACES: ListPages(_INTERFACES, self._take_interface),
            DEVICES: ListPages(DEVICES, self._take_device),
            _RACKS: ListPages(_RACKS, self._take_rack),
            _STATUSES: ListPages(_STATUSES, self._take_status),
        }

    def list_of(self, page: Any) -> ListPages | Refusal:
        """Return the list that a page is of, by its first object; that of racks if it has none."""
        try:
            found = page["results"]
            return self.lists[_PATHS[found[0]["object_type"]] if found else _RACKS]
        except (KeyError, TypeError, IndexError):
            return malformed(", ".join(self.lists))

    def _take_cable(self, found: Mapping[str, Any]) -> None:
        # From 3.2 on a breakout cable has further ends, of which `termination_a` is the first.
        is_plain = len(found.get("terminations") or "") <= 2
        one, other = (
            str(found[f"termination_{side}_id"])
            if found[f"termination_{side}_type"] == "dcim.interface" and is_plain
            else ""
            for side in "ab"
        )
        label, status = str(found.get("label") or ""), str(found["status"]["id"])
        self._cables.append(_Cable(str(found["id"]), label, status, one, other))

    def _take_interface(self, found: Mapping[str, Any]) -> None:
        device = str(found["device"]["id"]) if found["device"] else ""
        self._interfaces[str(found["id"])] = str(found["name"]), device

    def _take_device(self, found: Mapping[str, Any]) -> None:
        rack = str(found["rack"]["id"]) if found.get("rack") else ""
        self._devices[str(found["id"])] = str(found.get("name") or found["display"]), rack

    def _take_rack(self, found: Mapping[str, Any]) -> None:
        self._racks[str(found["id"])] = str(found["name"])

    def _take_status(self, found: Mapping[str, Any]) -> None:
        self._statuses[str(found["id"])] = str(found["name"]).casefold()

    def plan(self) -> CablePlan | Refusal:
        """Return the plan, its cables by their place in the list, or why the pages are not all."""
        for path, pages in self.lists.items():
            is_left_out = path == _RACKS and not pages.seen
            if not is_left_out and (missing := pages.missing()) is not None:
                return missing
        cables: list[PlannedCable] = []
        passed: list[str] = []
        for number, cable in enumerate(self._cables, 1):
            try:
                one, other = self._end(cable.one), self._end(cable.other)
                is_leaving = self._statuses[cable.status] == LEAVING
            except KeyError as error:
                what = f"{error.args[0]}, which cable {cable.id} is about, is in no list"
                fix = "read all lists again, with a token that may view every object of them"
                return Refusal(what, "the pages", fix)
            if one is None or other is None or is_leaving:
                passed.append(cable.id)
                continue
            racks = one[1], other[1]
            cables.append(
                PlannedCable(one[0], other[0], number, racks=racks, label=cable.label, unit="cable")
            )
        return checked(cables, passed_over(passed))

    def _end(self, interface: str) -> tuple[End, str] | None:
        """Return the end at an interface with its rack, None at anything else or in a module.

        Raises `KeyError` for an object that is in no list.
        """
        if not interface:
            return None
        name, device = self._interfaces[interface]
        if not device:
            return None
        called, rack = self._devices[device]
        return End(called, name), self._racks.get(rack, "")
