"""A plan of cables: what should be connected with what, as somebody wrote it down."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from topo.model.errors import Refusal
from topo.model.fabric import gbps

MAX_CABLES = 500_000


class End(NamedTuple):
    """An end of a cable: the device and its port, in the words of whoever said so."""

    device: str
    port: str

    def __str__(self) -> str:
        """`ib-leaf-01 port 5`, and `gpu-01 mlx5_0` where the port has a name."""
        return f"{self.device} {'port ' if self.port[:1].isdigit() else ''}{self.port}"


class PlannedCable(NamedTuple):
    """A cable of a plan; `gbps` 0 where the plan does not say.

    `line` is where it stands, counted in `unit`: lines, or cables by their number there.
    """

    one: End
    other: End
    line: int
    gbps: float = 0.0
    racks: tuple[str, str] = ("", "")
    label: str = ""
    unit: str = "line"


@dataclass(frozen=True, slots=True)
class CablePlan:
    """The cables of a plan, each port once; `notes` say in words what of it is passed over."""

    cables: tuple[PlannedCable, ...]
    notes: tuple[str, ...] = ()


def checked(cables: Iterable[PlannedCable], notes: Iterable[str] = ()) -> CablePlan | Refusal:
    """Return the plan, or why it cannot be one: no cable, too many, a port in two, a loop.

    The same cable written twice, as files do that list it at both ends, counts once. O(cables).
    """
    found: dict[frozenset[End], PlannedCable] = {}
    at: dict[End, PlannedCable] = {}
    for cable in cables:
        ends = frozenset((cable.one, cable.other))
        if ends in found:
            continue
        where = f"{cable.unit} {cable.line}"
        if cable.one == cable.other:
            return Refusal(f"{cable.one} is connected with itself", where, "name two ports")
        for end in ends:
            if not end.device or not end.port:
                return Refusal("a cable without a device or port", where, "name both ends")
            if (before := at.setdefault(end, cable)) is not cable:
                what = f"{end} is in two cables, also in {before.unit} {before.line}"
                return Refusal(what, where, "correct the plan: a port takes one cable")
        found[ends] = cable
        if len(found) > MAX_CABLES:
            return Refusal(f"more than {MAX_CABLES:,} cables", where, "give a part of the plan")
    if not found:
        return Refusal("no cable", "the plan", "give a plan with a line for each cable")
    return CablePlan(tuple(found.values()), tuple(notes))


def rate_gbps(text: str) -> float:
    """Return Gbit/s of `4xNDR`, `4x-50G`, `400G`, `400`; 0 of anything else."""
    if found := gbps(text.strip()):
        return found
    match = _RATE.fullmatch(text.strip())
    return float(match[2]) * int(match[1] or 1) if match else 0.0


_RATE = re.compile(r"(?:(\d{1,2})[xX]-?)?(\d{1,4}(?:\.\d{1,3})?)(?:G|Gbps|Gb/s)?", re.ASCII)
