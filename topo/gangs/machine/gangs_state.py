"""Everything that the machine of gangs knows, as a value."""

from dataclasses import dataclass

from topo.gangs.machine.gang import GangId
from topo.gangs.machine.record import DeletedGang, Record
from topo.model.ids import NodeName


@dataclass(frozen=True, slots=True)
class GangsState:
    """The state of a machine of gangs; equal machines have equal states."""

    leading: bool
    records: tuple[Record, ...]
    gone: tuple[DeletedGang, ...]
    turn: GangId | None
    head: GangId | None
    kept: tuple[NodeName, ...]
    stranded: tuple[GangId, ...]
