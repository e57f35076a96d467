"""Jobs that are held before their quota, among the gangs that `topo gangs` and `topo why` show."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from master.controllers.nomination.status.policy import Shown
from master.controllers.provisioning.form import RequestForm
from topo.gangs.machine.gang import Binding, Gang, GangId, gang_of_owner
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState
from topo.model.errors import Refusal
from topo.placement.job.request import Request
from topo.provisioning.machine import Provisioning, RequestRecord
from topo.provisioning.terms import Awaited, Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJobs:
    """Answers from the requests of this moment. `ahead_s`: servers' Unix time less our clock."""

    machine: Callable[[], Provisioning]
    form: RequestForm
    ahead_s: Callable[[], float]

    def all(self) -> Iterator[Shown]:
        """Yield the jobs that are held; O(requests)."""
        for record in self.machine().records():
            if record.request.is_gated:
                yield self._shown(record)

    def get(self, gang_id: GangId) -> Shown | None:
        """Return a job; None if it is not held; O(requests)."""
        return next((each for each in self.all() if each[0].id == gang_id), None)

    def _shown(self, record: RequestRecord) -> Shown:
        asked, job = record.seen.asked, self.form.about(record.request)
        pods = sum(count for _, count in record.request.pod_sets)
        request = asked.request if isinstance(asked, Terms) else Request(pods=pods, gpus_per_pod=1)
        created_s = record.request.created_s - self.ahead_s()
        gang = Gang(
            id=gang_of_owner(job.namespace, job.api_version, job.kind, job.uid),
            namespace=job.namespace,
            name=job.name,
            kind=job.kind,
            binding=Binding.PIECEMEAL,
            request=request,
            at_least=request.pods,
            priority=0,
            created_s=created_s,
            members=(),
            is_of_kueue=True,
            labelled={},
        )
        state, text = _state(record)
        return gang, GangStatus(
            state=state, text=f"{text}; it takes no quota of Kueue meanwhile", since_s=created_s
        )


def _state(record: RequestRecord) -> tuple[GangState, str]:
    """Return the state of a job that is held, and why.

    Whether its groups are booked is what the booking says, not what was written last: a job of
    which nothing can be booked is let go as well, and a write may be refused.
    """
    if record.error is not None:
        text = f"it is set aside for an error of topo-master: {record.error}"
        return GangState.IN_LINE, text
    asked, refused = record.seen.asked, record.refused
    if not isinstance(asked, Terms):
        why = str(asked) if isinstance(asked, Refusal) else asked.text
        is_let_go = record.written is not None or not isinstance(asked, Awaited)
        told = "nothing is booked for it, and it is let go to Kueue: " if is_let_go else ""
        return GangState.IN_LINE, f"{told}{why}"
    if record.seen.held is not None and not record.seen.broken:
        return GangState.IN_LINE, "its groups are booked, and it is let go to Kueue"
    if refused is not None:
        return GangState.NO_ROOM, refused.text
    return GangState.IN_LINE, "whole groups are looked for"
