"""Gangs while nothing is placed: which groups there are, or what is free, is not known yet.

What is said of them, and gates that a person wants opened all the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from master.controllers.nomination.status.status import Said
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.machine.instructions import OpenUnplanned, Say
from topo.gangs.machine.status import Standing
from topo.gangs.machine.write_order import pod_of
from topo.model.conditions.gang_states import GangState

SAID_AFTER_S = 10.0
"""Who comes to lead knows its groups and its cluster within seconds."""
LOOK_S = 1.0


@dataclass(kw_only=True)
class StartupGangs:
    """`why`: what is not known yet; `write` asks for a gate to be opened, `flush` tells people."""

    gangs: Callable[[], Iterable[Gang]]
    ungated: Mapping[GangId, str]
    why: Callable[[], Sequence[str]]
    said: Said
    write: Callable[[OpenUnplanned], None]
    flush: Callable[[], None]
    clock: Callable[[], float]
    known: dict[GangId, Gang] = field(default_factory=dict, init=False)
    """The gangs at the last look."""
    _began_s: float = field(default=0.0, init=False)
    _looked_s: float = field(default=0.0, init=False)

    def begin(self) -> None:
        """This master came to lead."""
        self._began_s = self._looked_s = self.clock()

    def look(self) -> None:
        """Opens what is to be opened and says why the others wait; O(pods), once a second."""
        now_s = self.clock()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        self.known = {gang.id: gang for gang in self.gangs()}
        for gang in self.known.values():
            self._open(gang)
            if now_s - self._began_s >= SAID_AFTER_S:
                self._say(gang)
        self.flush()

    def standings(self) -> Iterator[tuple[Gang, Standing]]:
        """All gangs and where they stand; O(pods)."""
        return ((gang, self._standing(gang)) for gang in self.gangs())

    def _open(self, gang: Gang) -> None:
        if (why := self.ungated.get(gang.id)) is None:
            return
        for member in gang.members:
            if member.gated and member.live:
                self.write(OpenUnplanned(gang.id, pod_of(member), member.version, why))

    def _say(self, gang: Gang) -> None:
        stands, told = self._standing(gang), self.said.of(gang.id)
        if stands.reason not in {GangState.NO_GROUPS, GangState.WAIVED}:
            return
        if told is None or (told.reason, told.note) != (stands.reason, stands.text):
            self.said.say(Say(gang.id, stands.reason, stands.text), gang)

    def _standing(self, gang: Gang) -> Standing:
        live = [member for member in gang.members if member.live]
        places = tuple((each.rank, each.node) for each in live if each.node is not None)
        reason, text = GangState.OPENED, "its scheduler may bind it"
        if gang.ungated:
            reason, text = GangState.WAIVED, gang.ungated
        elif any(member.gated for member in live):
            why = "; ".join(self.why()) or "the sources of the tree were not asked yet"
            text = f"nothing is placed before the groups are known: {why}; see `topo doctor`"
            reason = GangState.NO_GROUPS
        elif len(places) == len(live):
            reason, text = GangState.BOUND, "all of its pods run"
        return Standing(gang.id, reason, text, places=places)
