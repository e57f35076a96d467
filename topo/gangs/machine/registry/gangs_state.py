"""The whole state of the machine as a value: a replay has to end in an equal one."""

from dataclasses import dataclass

from topo.gangs.machine.gang import GangId
from topo.gangs.machine.record import DeletedGang, Record
from topo.gangs.machine.registry.unreadable import SetAside
from topo.model.ids import NodeName


@dataclass(frozen=True, slots=True)
class GangsState:
    """Everything that a machine of gangs knows; equal machines have equal states."""

    leading: bool
    records: tuple[Record, ...]
    gone: tuple[DeletedGang, ...]
    set_aside: tuple[SetAside, ...]
    turn: GangId | None
    head: GangId | None
    kept: tuple[NodeName, ...]
    stranded: tuple[GangId, ...]
