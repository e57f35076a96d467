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
from topo.facts.reading.text import shorten
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
    rates: dict[str, str] = {}
    at = {name: n for n, name in enumerate(header)}
    try:
        for row in rows:
            cells = [cell.strip() for cell in row]
            if rows.line_num == 1 or not any(cells) or cells[0].startswith("#"):
                continue
            if len(cells) < layout[0]:
                what = f"{len(cells)} cells where the header has {len(header)}"
                return Refusal(what, f"line {rows.line_num}", "give every cell, or a line less")
            cable = layout[1]((rows.line_num, cells), at)
            if (rate := _cell(cells, at, "rate")) and not rate_gbps(rate):
                rates[str(rows.line_num)] = rate
            if cable is None:
                passed.append(str(rows.line_num))
            else:
                cables.append(cable)
    except csv.Error as error:
        return Refusal(str(error), f"line {rows.line_num}", "correct the line")
    return checked(cables, (*_passed_over(passed), *_unread_rates(rates)))


def _passed_over(lines: Sequence[str]) -> Iterator[str]:
    if lines:
        are = "cable is" if len(lines) == 1 else "cables are"
        what = f"{len(lines)} {are} not between two interfaces"
        yield f"{what} (line {_shown(lines)}): panels are not followed"


def _unread_rates(by_line: Mapping[str, str]) -> Iterator[str]:
    for rate in tuple(by_line.values())[:1]:
        what = f"rate {shorten(rate, 32)!r} is no speed (line {_shown(tuple(by_line))})"
        yield f"{what}: write it as 4xNDR or 400G; till then the plan names none there"


def _shown(lines: Sequence[str]) -> str:
    return ", ".join(lines[:5]) + (", …" if len(lines) > 5 else "")


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
    a_node, a_port, z_node, z_port, rate, label, *racks = (
        _cell(cells, at, name) for name in (*_OURS, "rate", "label", "a_rack", "z_rack")
    )
    one, other = End(a_node, a_port), End(z_node, z_port)
    return PlannedCable(one, other, line, rate_gbps(rate), (racks[0], racks[1]), label)


def _cell(cells: Sequence[str], at: Mapping[str, int], name: str) -> str:
    """Return the cell of a column; empty where the table or the row has none."""
    number = at.get(name, len(cells))
    return cells[number] if number < len(cells) else ""


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
