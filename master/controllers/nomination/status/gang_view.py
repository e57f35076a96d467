"""All gangs with their status, for REST, the CLI and the doctor."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from master.controllers.nomination.status.policy import GangPolicy, Shown
from master.controllers.nomination.status.status_store import StatusStore
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.status import Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class GangView:
    """The gangs of all policies, joined with their stored status.

    `policies` may change: before placement starts, another policy than the machine's knows the
    gangs. `known_from_s` is the Unix time from which this master has recorded transitions.
    """

    policies: Callable[[], Sequence[GangPolicy]]
    known: Mapping[GangId, Gang]
    store: StatusStore
    known_from_s: Callable[[], float]

    def all(self) -> tuple[Shown, ...]:
        """Return all gangs; O(pods), and O(gangs log gangs) for those in the queue."""
        return tuple(self._stored(each) for policy in self.policies() for each in policy.all())

    def get(self, gang_id: GangId) -> Shown | None:
        """Return a gang; None if the id is unknown."""
        found = self._found(gang_id)
        return self._stored(found) if found is not None else None

    def gang(self, gang_id: GangId) -> Gang | None:
        """Return a gang without its status; O(1), and O(pods) for a native one."""
        if (known := self.known.get(gang_id)) is not None:
            return known
        found = self._found(gang_id)
        return found[0] if found is not None else None

    async def get_advised(self, gang_id: GangId) -> Shown | None:
        """Return a gang; without room for it, with the smallest change that would admit it."""
        if (known := self.known.get(gang_id)) is not None:
            await self.store.refresh_advice(known)
        return self.get(gang_id)

    def history(self, gang_id: GangId) -> tuple[Transition, ...]:
        """Return the last transitions of a gang, the oldest first."""
        return self.store.history(gang_id)

    def without_room(self) -> Mapping[GangId, Gang]:
        """Return the gangs whose reported state is that they have no room, in any policy."""
        announced = self.store.announced()
        waiting = (each for each, _, status in announced if status.state.row.is_advised)
        return {each: self.known[each] for each in waiting if each in self.known}

    def _found(self, gang_id: GangId) -> Shown | None:
        found = (policy.get(gang_id) for policy in self.policies())
        return next((each for each in found if each is not None), None)

    def _stored(self, found: Shown) -> Shown:
        """Add the stored details, if the stored state is the current one."""
        gang, status = found
        kept = self.store.get(gang.id)
        if kept is None or kept.state is not status.state:
            return found
        would_fit = kept.would_fit if status.state.row.is_advised else ""
        return gang, replace(status, would_fit=would_fit, since_s=kept.since_s)
