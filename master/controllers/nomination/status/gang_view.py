"""All gangs as people are shown them, whatever chooses their nodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from master.controllers.nomination.status.policy import GangPolicy, Shown
from master.controllers.nomination.status.status_store import StatusStore
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.status import Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class GangView:
    """The gangs of all policies, with what the store has of them.

    `policies` may change: while nothing is placed, others than the machine know the gangs.
    `known_from_s` is since when transitions are seen here, Unix time.
    """

    policies: Callable[[], Sequence[GangPolicy]]
    known: Mapping[GangId, Gang]
    store: StatusStore
    known_from_s: Callable[[], float]

    def all(self) -> tuple[Shown, ...]:
        """Return all gangs; O(pods), O(gangs²) for those in the queue: for people who ask."""
        return tuple(self._stored(each) for policy in self.policies() for each in policy.all())

    def get(self, gang_id: GangId) -> Shown | None:
        """Return a gang; None where there is none of this id."""
        found = (policy.get(gang_id) for policy in self.policies())
        return next((self._stored(each) for each in found if each is not None), None)

    async def get_advised(self, gang_id: GangId) -> Shown | None:
        """Return a gang, with what lets it in now where there is no room for it."""
        if (known := self.known.get(gang_id)) is not None:
            await self.store.refresh_advice(known)
        return self.get(gang_id)

    def history(self, gang_id: GangId) -> tuple[Transition, ...]:
        """Return the last transitions of a gang, the oldest first."""
        return self.store.history(gang_id)

    def without_room(self) -> Mapping[GangId, Gang]:
        """Return the gangs that are reported to have no room, whoever else waits."""
        announced = self.store.announced()
        waiting = (each for each, _, status in announced if status.state.row.is_advised)
        return {each: self.known[each] for each in waiting if each in self.known}

    def _stored(self, found: Shown) -> Shown:
        """Add what is only known to the store, where it has the same state."""
        gang, status = found
        kept = self.store.get(gang.id)
        if kept is None or kept.state is not status.state:
            return found
        would_fit = kept.would_fit if status.state.row.is_advised else ""
        return gang, replace(status, would_fit=would_fit, since_s=kept.since_s)
