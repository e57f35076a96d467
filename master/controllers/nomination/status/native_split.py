"""Gangs that Volcano placed with a group in several domains: found on the bound pods, and told.

Volcano may be configured to ignore groups, an operator may change a PodGroup, a pod that comes
again may be put elsewhere: whatever it was asked, what counts is where the pods are.
"""

from dataclasses import dataclass, field

from master.controllers.nomination.native import NativeStandings
from master.controllers.nomination.status.status import Said
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.machine.instructions import Say
from topo.model.conditions.gang_states import GangState

PODS_AT_ONCE = 1000
"""Pods that are read before everybody else has a turn, some ten milliseconds."""


@dataclass(kw_only=True)
class NativeSplit:
    """Says of each that it stands split for as long as it does. Mutable; one owner."""

    standings: NativeStandings
    said: Said
    _split: dict[GangId, Gang] = field(default_factory=dict, init=False)

    @property
    def known(self) -> dict[GangId, Gang]:
        """Those that stand so."""
        return self._split

    def look(self) -> None:
        """Looks at gangs that changed since; O(their pods), `PODS_AT_ONCE` and a gang at most."""
        for gang_id in self.standings.gangs.take(PODS_AT_ONCE):
            found = self.standings.of(gang_id)
            if found is None or found[1].reason is not GangState.SPLIT:
                if self._split.pop(gang_id, None) is not None:
                    self.said.forget(gang_id)
                continue
            gang, stands = found
            self._split[gang_id] = gang
            before = self.said.of(gang_id)
            if before is None or before.note != stands.text:
                self.said.say(Say(gang_id, GangState.SPLIT, stands.text), gang)
