"""Gangs as people are shown them: those that are placed here, and those that Volcano places."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from master.controllers.nomination.native import NativeStandings
from master.controllers.nomination.status.startup import StartupGangs
from master.controllers.nomination.status.status import Said
from topo.gangs.machine.gang import Binding, Gang, GangId
from topo.gangs.machine.gangs import Gangs
from topo.gangs.machine.placement_requests import is_mixed
from topo.gangs.machine.status import Standing
from topo.model.conditions.gang_states import GangState

Shown = tuple[Gang, Standing]
_ONE_DOMAIN = (
    "it is opened over pods of lower priority only where one domain holds all of its groups, since"
    " Volcano might mix them: submit it as an Indexed batch Job, with gpu-group-mode: preferred, or"
    " end such pods yourself"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGangs:
    """Where all gangs stand, the machine's own once it places.

    `evicts_nobody`: why Volcano would evict no pod for a gang; empty where it would, or nobody
    knows.
    """

    machine: Gangs
    known: Mapping[GangId, Gang]
    before: StartupGangs
    native: NativeStandings
    said: Said
    preempts: bool
    """Whether gangs may be opened over pods of lower priority."""
    is_placing: Callable[[], bool]
    evicts_nobody: Callable[[], str]

    def all(self) -> tuple[Shown, ...]:
        """All gangs; O(gangs²) in the line, O(pods): for people who ask."""
        if not self.is_placing():
            return (*self.before.standings(), *self.native.all())
        placed = (
            (self.known[each.id], self._told(self.known[each.id], each))
            for each in self.machine.standings()
            if each.id in self.known
        )
        return (*placed, *self.native.all())

    def of(self, gang_id: GangId) -> Shown | None:
        """A gang; None where there is none of this id."""
        if (found := self.native.of(gang_id)) is not None:
            return found
        if not self.is_placing():
            return next((each for each in self.before.standings() if each[0].id == gang_id), None)
        stands, known = self.machine.standing(gang_id), self.known.get(gang_id)
        return None if stands is None or known is None else (known, self._told(known, stands))

    async def advised(self, gang_id: GangId) -> Shown | None:
        """A gang, with what would let it in now where there is no room for it."""
        if (known := self.known.get(gang_id)) is not None:
            await self.said.look_anew(known)
        return self.of(gang_id)

    def without_room(self) -> Mapping[GangId, Gang]:
        """The gangs that are told there is no room, whoever else waits."""
        told = [each for each, said in self.said.all() if said.reason.row.is_advised]
        return {each: self.known[each] for each in told if each in self.known}

    def _told(self, gang: Gang, stands: Standing) -> Standing:
        text = in_words(gang, stands.reason, stands.text, self.evicts_nobody())
        if self.preempts and stands.reason is GangState.NO_ROOM and _might_be_mixed(gang):
            text = f"{text}; {_ONE_DOMAIN}"
        fix = self.said.would_fit(gang.id) if stands.reason.row.is_advised else ""
        return replace(stands, text=text, would_fit=fix)


def _might_be_mixed(gang: Gang) -> bool:
    several = gang.request.pods > gang.request.pods_per_group
    return several and gang.preempts and is_mixed(gang)


def in_words(gang: Gang | None, reason: GangState, text: str, evicts_nobody: str) -> str:
    """What is said of a gang that stands so, with what its scheduler would not do."""
    is_over = gang is not None and gang.binding is Binding.WHOLE and reason is GangState.PREEMPTS
    if gang is None or not is_over:
        return text
    if evicts_nobody:
        text = f"{text}; but {evicts_nobody}: topo doctor has the patch"
    if name := gang.unheeded_class:
        text = f"{text}; but Volcano goes by the priority class of the job, which has none: unless"
        text += f" {name} is the cluster's default, set spec.priorityClassName of the job to it"
    return text
