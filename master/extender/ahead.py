"""Nodes that are kept for ranks without a pod, within the budget of their namespace.

`topo.placement.booking.ahead` has the rule, `AheadBudget` the ledger, `topo.gangs.extender.needs`
for how long such ranks are kept. This says of groups without gates what they would keep, and for
whom their holds are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from master.booking.ahead import AheadBudget, Keeper, Waiting
from master.kube.gang_pod import GangPod
from topo.gangs.extender.needs import gang_of
from topo.gangs.machine.gang import GangId
from topo.model.limits import EXTENDER_KEYS
from topo.placement.booking.ahead import AheadRequest, KeptAhead
from topo.placement.booking.holds import Hold, HoldId
from topo.placement.job.request import Request

GROUP = "group"


@dataclass
class GroupsAhead:
    """What gangs without gates keep for ranks that have no pod.

    `pods_of` returns the live pods of a gang by rank, `any_pod` one of its pods, `held` its holds
    with their ranks. `ahead_s` is Unix time by the clock of the API servers less that of the
    bookings.
    """

    budget: AheadBudget
    pods_of: Callable[[GangId], Sequence[GangPod]]
    any_pod: Callable[[GangId], GangPod | None]
    held: Callable[[GangId], Mapping[HoldId, tuple[int, ...]]]
    ahead_s: float = 0.0
    _claims: dict[GangId, KeptAhead] = field(default_factory=dict)
    """What gangs were granted: a hold that ends while its pods wait is made again."""

    def __post_init__(self) -> None:
        self.budget.readers[EXTENDER_KEYS] = self
        self.budget.claims.append(self._claims.values)

    # For whom the holds are

    def keeper(self, hold: Hold) -> Keeper | None:
        """Return the gang of a hold; None for one without pods, whose holds end at once."""
        gang_id = gang_of(hold)
        pod = self.any_pod(gang_id) if gang_id is not None else None
        if pod is None:
            return None
        return Keeper(
            id=pod.gang_id,
            kind=GROUP,
            namespace=pod.metadata.namespace,
            name=_name(pod),
            workload=pod.workload,
        )

    def waiting(self, keeper: Keeper) -> Waiting:
        """Return the GPUs of pods that exist, have nodes held and are not bound; O(pods).

        Its holds are made again and again: it waits since its newest pod was made.
        """
        gang_id = GangId(keeper.id)
        held = {rank for ranks in self.held(gang_id).values() for rank in ranks}
        live = self.pods_of(gang_id)
        has_pod = self.budget.state.bookings.has_pod
        gpus = {pod.rank: pod.gpus for pod in live if not has_pod(pod.metadata.uid)}
        newest_s = max((pod.created_s for pod in live), default=None)
        since_s = newest_s - self.ahead_s if newest_s is not None else None
        return Waiting([gpus[rank] for rank in gpus.keys() & held], since_s)

    # What is asked

    def excess(
        self, pods: Sequence[GangPod], request: Request, lacks: int, gpu_type: str | None = None
    ) -> str:
        """Return why nodes may not be kept for so many ranks without a pod; empty if they may.

        Without a type, of any that the job may have.
        """
        if not lacks:
            return ""
        asked = _asked(pods, request, lacks)
        if gpu_type is not None:
            return self.budget.excess(replace(asked, gpu_type=gpu_type))
        types = self.budget.state.capacity.types_for(request.eligible)
        return self.budget.of(asked.namespace).excess_of_any(asked, types)

    # What was granted

    def grant(self, pods: Sequence[GangPod], request: Request, lacks: int, gpu_type: str) -> None:
        """Note that nodes are kept for so many ranks without a pod."""
        asked = _asked(pods, request, lacks)
        claim = replace(asked, gpu_type=gpu_type).claim(GROUP, _name(pods[0]))
        self._claims[pods[0].gang_id] = claim

    def narrow(self, gang_id: GangId, gpus: int) -> None:
        """Note that a gang needs no more than so many GPUs for ranks without a pod."""
        claim = self._claims.get(gang_id)
        if claim is not None and gpus < claim.gpus:
            if gpus:
                self._claims[gang_id] = replace(claim, gpus=gpus)
            else:
                del self._claims[gang_id]


def _asked(pods: Sequence[GangPod], request: Request, lacks: int) -> AheadRequest:
    return AheadRequest(
        id=f"{EXTENDER_KEYS}{pods[0].gang_id}",
        namespace=pods[0].metadata.namespace,
        gpus=lacks * request.gpus_per_pod,
        gpu_type="",
        pods=lacks,
        resource=pods[0].resource,
        workload=pods[0].workload,
    )


def _name(pod: GangPod) -> str:
    return pod.owner.name if pod.owner is not None else pod.metadata.name
