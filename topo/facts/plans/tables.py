"""Plans as tables of comma-separated values, told apart by their headers.

| who | header |
|---|---|
| ours | `a_node,a_port,z_node,z_port`, and of choice `rate`, `label`, `a_rack`, `z_rack` |
| UFM Cable Validation Tool, Ethernet | `A-Node Name,A-Type,A-Port,Z-Node Name,Z-Type,Z-Port` |
| the same, InfiniBand | `Rack,U,Name,HCA/Port,Rack,U,Name,Port`: names come twice, so by position |
| NetBox, import of cables | `side_a_device,side_a_type,side_a_name,side_b_device,…` |
| NetBox, export of all data | `ID,Label,Termination A,Termination B,…,Device A,…,Rack A,…` |

Sources: UFM CVT user manual 1.5, "Point-to-point file"; NetBox 4.4.10, "Cable import" and what its
list of cables exports, which does not say what is an interface. Between commas or semicolons or
tabs, in quotes or not. O(size).
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence

from topo.facts.plans.list_pages import LEAVING
from topo.facts.plans.plan import CablePlan, End, PlannedCable, checked, rate_gbps
from topo.model.errors import Refusal

_OURS = ("a_node", "a_port", "z_node", "z_port")
_CVT = ("a-node name", "a-type", "a-port", "z-node name", "z-type", "z-port")
_CVT_IB = ("rack", "u", "name", "hca/port", "rack", "u", "name", "port")
_NETBOX = tuple(f"side_{side}_{what}" for side in "ab" for what in ("device", "type", "name"))
_NETBOX_EXPORT = ("id", "label", "termination a", "termination b", "device a", "device b", "status")
_INTERFACE = "dcim.interface"

Row = tuple[int, Sequence[str]]
"""The number of a line, and its cells."""


def recognises(text: str) -> bool:
    """Return whether the first line is the header of such a table."""
    return _layout(_header(text)) is not None


def read(text: str) -> CablePlan | Refusal:
    """Return the plan, or the line that cannot be one."""
    layout = _layout(header := _header(text))
    if layout is None:
        return Refusal("no known header", "line 1", f"begin with {','.join(_OURS)}")
    rows = csv.reader(io.StringIO(text.lstrip("\ufeff")), delimiter=_delimiter(text))
    cables: list[PlannedCable] = []
    passed: list[str] = []
    try:
        for row in rows:
            cells = [cell.strip() for cell in row]
            if rows.line_num == 1 or not any(cells) or cells[0].startswith("#"):
                continue
            if len(cells) < layout[0]:
                what = f"{len(cells)} cells where the header has {len(header)}"
                return Refusal(what, f"line {rows.line_num}", "give every cell, or a line less")
            cable = layout[1]((rows.line_num, cells), {name: n for n, name in enumerate(header)})
            if cable is None:
                passed.append(str(rows.line_num))
            else:
                cables.append(cable)
    except csv.Error as error:
        return Refusal(str(error), f"line {rows.line_num}", "correct the line")
    return checked(cables, _passed_over(passed))


def _passed_over(lines: Sequence[str]) -> Iterator[str]:
    if lines:
        shown = ", ".join(lines[:5]) + (", …" if len(lines) > 5 else "")
        what = f"{len(lines)} cables are not between two interfaces"
        yield f"{what} (line {shown}): panels are not followed"


def _delimiter(text: str) -> str:
    first, _, _ = text.partition("\n")
    return max(",;\t", key=first.count)


def _header(text: str) -> tuple[str, ...]:
    first, _, _ = text.lstrip("\ufeff").partition("\n")
    return tuple(cell.strip(' "\r').casefold() for cell in first.split(_delimiter(text)))


_Make = Callable[[Row, Mapping[str, int]], PlannedCable | None]


def _layout(header: tuple[str, ...]) -> tuple[int, _Make] | None:
    """Return how many cells a row must have, and what makes a cable of it."""
    for names, make in ((_OURS, _ours), (_NETBOX, _netbox), (_NETBOX_EXPORT, _netbox_export)):
        if set(names) <= set(header):
            return max(map(header.index, names)) + 1, make
    if header[: len(_CVT)] == _CVT:
        return len(_CVT), _cvt
    return (len(_CVT_IB), _cvt_infiniband) if header[: len(_CVT_IB)] == _CVT_IB else None


def _ours(row: Row, at: Mapping[str, int]) -> PlannedCable:
    line, cells = row

    def cell(name: str) -> str:
        number = at.get(name, len(cells))
        return cells[number] if number < len(cells) else ""

    one, other = End(cell("a_node"), cell("a_port")), End(cell("z_node"), cell("z_port"))
    racks = (cell("a_rack"), cell("z_rack"))
    return PlannedCable(one, other, line, rate_gbps(cell("rate")), racks, cell("label"))


def _cvt(row: Row, _: Mapping[str, int]) -> PlannedCable:
    line, cells = row
    return PlannedCable(End(cells[0], cells[2]), End(cells[3], cells[5]), line)


def _cvt_infiniband(row: Row, _: Mapping[str, int]) -> PlannedCable:
    line, cells = row
    one, other = End(cells[2], cells[3]), End(cells[6], cells[7])
    return PlannedCable(one, other, line, racks=(cells[0], cells[4]))


def _netbox(row: Row, at: Mapping[str, int]) -> PlannedCable | None:
    line, cells = row
    named = {name: cells[number] for name, number in at.items() if number < len(cells)}
    if {named["side_a_type"], named["side_b_type"]} != {_INTERFACE}:
        return None
    one, other = (End(named[f"side_{side}_device"], named[f"side_{side}_name"]) for side in "ab")
    return PlannedCable(one, other, line, label=named.get("label", ""))


def _netbox_export(row: Row, at: Mapping[str, int]) -> PlannedCable | None:
    line, cells = row
    named = {name: cells[number] for name, number in at.items() if number < len(cells)}
    one, other = (End(named[f"device {side}"], named[f"termination {side}"]) for side in "ab")
    # Of several interfaces at an end the names stand in one cell.
    is_plain = all(end.device and end.port and "," not in end.port for end in (one, other))
    if not is_plain or named["status"].casefold() == LEAVING:
        return None
    racks = (named.get("rack a", ""), named.get("rack b", ""))
    return PlannedCable(one, other, line, racks=racks, label=named["label"])
