"""Gangs that are set aside: a step for them raised an error, so that nothing is planned for them.

One gang must not end the leader, nor stop the others: a next leader would read the same pods. What
is left to do for such a gang is little and certain: its holds are given back, since nobody plans on
them any more, and after the gate timeout its gates are opened, because a gate must never outlive
the one that would open it. Its labels on nodes stay: opened pods select them.

It is tried again as soon as it is observed as another one. Until then what failed would fail again.

Cost: O(members).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from topo.gangs.machine.gang import Gang
from topo.gangs.machine.instructions import Instruction, OpenUnplanned, Release
from topo.gangs.machine.record import Key, Writes
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState
from topo.model.isolation import ObjectError


@dataclass(frozen=True, slots=True)
class SetAside:
    """A gang as it was when a step for it raised `error`, and since when it cannot be read.

    `given` are its pending writes. `is_reported`: its state was reported.
    """

    gang: Gang
    error: ObjectError
    since_s: float
    given: Writes = field(default_factory=dict)
    is_reported: bool = False

    @property
    def status(self) -> GangStatus:
        """The status of the gang: where its pods run, and the error."""
        return GangStatus(
            state=GangState.UNREADABLE,
            text=f"planning it failed: {self.error.reason}",
            places=tuple(
                (member.rank, member.node)
                for member in self.gang.members
                if member.live and member.node is not None
            ),
        )


def set_aside_writes(aside: SetAside, *, opens: bool) -> Mapping[Key, Instruction]:
    """Return the writes for a gang that is set aside; `opens`: its gates are to be opened."""
    gang = aside.gang
    want: dict[Key, Instruction] = {("hold", hold): Release(gang.id, hold) for hold in gang.holds}
    if not opens:
        return want
    why = f"it could not be planned until the gate timeout: {aside.error.reason}"
    for member in (*gang.members, *gang.choosers):
        if member.waits and member.gated and not member.is_expected:
            want["pod", member.uid] = OpenUnplanned(gang.id, member, why)
    return want
