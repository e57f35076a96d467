"""Gangs that the leading master places; the machine has their status."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from master.controllers.nomination.status.policy import Shown
from topo.gangs.machine.gang import Binding, Gang, GangId
from topo.gangs.machine.gangs import Gangs
from topo.gangs.machine.placement_requests import may_exchange_pods
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState

_ONE_DOMAIN = (
    "it is opened over pods of lower priority only where one domain holds all of its groups, since"
    " Volcano might mix them: submit it as an Indexed batch Job, with gpu-group-mode: preferred, or"
    " end such pods yourself"
)
_KUEUE = (
    "Kueue has admitted it, and takes a job back whose pods are not ready after 30 minutes unless"
    " its waitForPodsReady says otherwise"
)
_WAITS_FOR_ROOM = frozenset(
    {GangState.NO_ROOM, GangState.NEVER_FITS, GangState.NO_GROUPS, GangState.BEHIND}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NominationPolicy:
    """The policy of nominated gangs.

    `evicts_nobody`: why Volcano evicts no pod for a gang; empty if it does or this is unknown.
    `preempts`: whether gangs may be planned over pods of lower priority, to be evicted. `quota`:
    which quota keeps the missing pods of a gang, or their places, away; empty for none.
    """

    machine: Gangs
    known: Mapping[GangId, Gang]
    evicts_nobody: Callable[[], str]
    preempts: bool
    quota: Callable[[Gang], str]

    def all(self) -> Iterator[Shown]:
        """Yield all gangs; O(pods), and O(gangs log gangs) for those in the queue."""
        for gang_id, status in self.machine.statuses():
            if (gang := self.known.get(gang_id)) is not None:
                yield gang, self._described(gang, status)

    def get(self, gang_id: GangId) -> Shown | None:
        """Return a gang; None if the machine does not know it."""
        status, gang = self.machine.status(gang_id), self.known.get(gang_id)
        if status is None or gang is None:
            return None
        return gang, self._described(gang, status)

    def describe(self, gang: Gang, state: GangState, text: str) -> str:
        """Return the text of a state, with what the gang's scheduler would fail to do."""
        return with_doubts(gang, state, text, self.evicts_nobody())

    def _described(self, gang: Gang, status: GangStatus) -> GangStatus:
        text = self.describe(gang, status.state, status.text)
        if self.preempts and status.state is GangState.NO_ROOM and _might_be_mixed(gang):
            text = f"{text}; {_ONE_DOMAIN}"
        if status.state is GangState.PODS_MISSING and (full := self.quota(gang)):
            text = f"{text}; {full}"
        return replace(status, text=with_limit_of_kueue(gang, status.state, text))


def _might_be_mixed(gang: Gang) -> bool:
    several = gang.request.pods > gang.request.pods_per_group
    return several and gang.preempts and may_exchange_pods(gang)


def with_limit_of_kueue(gang: Gang, state: GangState, text: str) -> str:
    """Return the text; if Kueue will take the job back while it waits for room, with that."""
    is_limited = gang.is_of_kueue and state in _WAITS_FOR_ROOM
    return f"{text}; {_KUEUE}" if is_limited else text


def with_doubts(gang: Gang, state: GangState, text: str, evicts_nobody: str) -> str:
    """Return the text; if Volcano has to evict pods for the gang but will not, with the reason."""
    if gang.binding is not Binding.WHOLE or state is not GangState.PREEMPTS:
        return text
    if evicts_nobody:
        text = f"{text}; but {evicts_nobody}: topo doctor has the patch"
    if name := gang.unheeded_class:
        text = f"{text}; but Volcano goes by the priority class of the job, which has none: unless"
        text += f" {name} is the cluster's default, set spec.priorityClassName of the job to it"
    return text
