"""Status of gangs while nothing can be placed: the groups or the free capacity are unknown.

Gates that a person wants opened are opened all the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from master.controllers.nomination.status.policy import Shown
from master.controllers.nomination.status.status_store import StatusStore
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.machine.instructions import OpenUnplanned
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState

REPORTED_AFTER_S = 10.0
"""A new leader knows its groups and its cluster within seconds."""
LOOK_S = 1.0


@dataclass(kw_only=True)
class StartupPolicy:
    """`why`: what is unknown so far. `flush` writes Events."""

    gangs: Callable[[], Iterable[Gang]]
    ungated: Mapping[GangId, str]
    why: Callable[[], Sequence[str]]
    store: StatusStore
    flush: Callable[[], None]
    clock: Callable[[], float]
    _began_s: float = field(default=0.0, init=False)
    _looked_s: float = field(default=0.0, init=False)

    def begin(self) -> None:
        """Note that this master began to lead."""
        self._began_s = self._looked_s = self.clock()

    def look(self, write: Callable[[Sequence[OpenUnplanned]], None]) -> None:
        """Open the requested gates, and report why the other gangs wait; O(pods), once a second.

        `write` writes to pods.
        """
        now_s = self.clock()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        for gang, status in self.all():
            if gang.id in self.ungated:
                write(list(_openings(gang, self.ungated[gang.id])))
            is_due = now_s - self._began_s >= REPORTED_AFTER_S
            if is_due and status.state in {GangState.NO_GROUPS, GangState.WAIVED}:
                self.store.report(gang, status.state, status.text)
        self.flush()

    def all(self) -> Iterator[Shown]:
        """Yield all gangs; O(pods)."""
        return ((gang, self._status(gang)) for gang in self.gangs())

    def get(self, gang_id: GangId) -> Shown | None:
        """Return a gang; O(pods)."""
        return next((each for each in self.all() if each[0].id == gang_id), None)

    def _status(self, gang: Gang) -> GangStatus:
        live = [member for member in gang.members if member.live]
        places = tuple((each.rank, each.node) for each in live if each.node is not None)
        state, text = GangState.OPENED, "its scheduler may bind it"
        if gang.ungated:
            state, text = GangState.WAIVED, gang.ungated
        elif any(member.gated for member in live):
            why = "; ".join(self.why()) or "the sources of the tree were not asked yet"
            text = f"nothing is placed before the groups are known: {why}; see `topo doctor`"
            state = GangState.NO_GROUPS
        elif len(places) == len(live):
            state, text = GangState.BOUND, "all of its pods run"
        return GangStatus(state=state, text=text, places=places)


def _openings(gang: Gang, why: str) -> Iterator[OpenUnplanned]:
    for member in (*gang.members, *gang.choosers):
        if member.gated and member.live and not member.is_expected:
            yield OpenUnplanned(gang.id, member, why)
