"""Gangs that are set aside: a step for them raised an error, so that nothing is planned for them.

One gang must not end the leader, nor stop the others: a next leader would read the same pods. What
is left to do for such a gang is little and certain: its holds are given back, since nobody plans on
them any more, and after the gate timeout its gates are opened, because a gate must never outlive
the one that would open it. Its labels on nodes stay: opened pods select them.

It is tried again once it is observed as another one: until then what failed would fail again. Where
it fails again and again, as a step may that only a plan brings up, the pauses between the tries
grow, so that holds and writes do not come and go without end.

Cost: O(members).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from topo.gangs.machine.gang import Gang, PodUid
from topo.gangs.machine.instructions import Instruction, OpenUnplanned, Release
from topo.gangs.machine.record import Key, Writes, opened_soon
from topo.gangs.machine.settings import GangSettings
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState
from topo.model.isolation import ObjectError


@dataclass(frozen=True, slots=True)
class Failures:
    """How often a gang was set aside, since when, and when last.

    `read_s`: when it could be read again since; None where it is set aside.
    """

    since_s: float
    last_s: float
    times: int = 1
    read_s: float | None = None

    @classmethod
    def first(cls, gang: Gang, now_s: float) -> "Failures":
        """Return the failures of a gang with its first one of this leader.

        The gate timeout goes on where an earlier leader began it: of leaders that follow each other
        within that time, each would else begin it anew, and the gates stay for ever.
        """
        since_s = now_s if gang.aside_s is None else min(now_s, gang.aside_s)
        return cls(since_s, now_s)

    def next(self, now_s: float, settings: GangSettings) -> "Failures":
        """Return the failures with one more; those of a gang that was well for long begin anew.

        That is longer than the gate timeout: a step that fails only at the turn of the gang in the
        queue would else begin it anew each time.
        """
        long_s = max(2 * settings.retry_ceiling_s, settings.gate_s)
        if self.read_s is not None and now_s - self.read_s > long_s:
            return Failures(now_s, now_s)
        return Failures(self.since_s, now_s, self.times + 1)

    def retry_s(self, settings: GangSettings) -> float:
        """Return when the gang may be tried again: after the first failure at once."""
        pause_s = settings.refused_s(self.times - 1) if self.times > 1 else 0.0
        return self.last_s + pause_s


@dataclass(frozen=True, slots=True)
class SetAside:
    """A gang that a step raised `error` for.

    `gang` is as it is now, `failed` as it was then. `given` are its pending writes. `is_reported`:
    its state was reported.
    """

    gang: Gang
    failed: Gang
    error: ObjectError
    failures: Failures
    given: Writes = field(default_factory=dict)
    is_reported: bool = False

    def opening_pods(self) -> frozenset[PodUid]:
        """Return the pods whose gates are opened by writes on their way; O(pending writes)."""
        return opened_soon(self.given)

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
