"""Places that gangs keep for pods that are not made yet, within the budget of their namespace.

`topo.placement.booking.ahead` has the rule, `AheadBudget` the ledger. This says of gangs what they
would keep, and for whom their holds are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from master.booking.ahead import AheadBudget, Keeper, NamespaceBudget, Waiting
from master.controllers.nomination.gangs.builder import gang_name
from master.controllers.nomination.gangs.context import Lacking
from master.kube.gang_pod import GangPod
from topo.gangs.annotation_keys import is_workload
from topo.gangs.hold_claims import gang_of_hold
from topo.gangs.machine.gang import Gang, GangId, HeldPlaces, Member
from topo.model.limits import GANG_KEYS, MAX_PODS_AHEAD
from topo.placement.booking.ahead import AheadRequest, KeptAhead
from topo.placement.booking.holds import Hold, HoldId

LOOKED_AT = 64
"""Gangs that wait for the budget of their namespace and are looked at again in one second, the
oldest first; one that is granted makes way for others."""
GANG = "gang"


@dataclass
class GangsAhead:
    """What gangs keep ahead. `pods_of` returns the pods of a gang, `any_pod` one of them.

    `holds_of` returns the holds of a gang.
    """

    budget: AheadBudget
    pods_of: Callable[[GangId], Sequence[GangPod]]
    any_pod: Callable[[GangId], GangPod | None]
    holds_of: Callable[[GangId], HeldPlaces]
    _beyond: dict[GangId, tuple[float, AheadRequest, tuple[str, ...], str]] = field(
        default_factory=dict
    )
    """Gangs that may not keep their places: their age, what they asked for, of which types, why."""
    _until_s: dict[GangId, float] = field(default_factory=dict)
    """When places of a gang are kept no longer, of gangs that keep some."""
    _expected: dict[GangId, tuple[str, int]] = field(default_factory=dict)
    """How many pods gangs lack that wait for their turn, by gang with its namespace."""
    _claims: dict[GangId, KeptAhead] = field(default_factory=dict)
    """What gangs that have begun may keep."""

    def __post_init__(self) -> None:
        self.budget.readers[GANG_KEYS] = self
        self.budget.claims.append(self._claims.values)

    # For whom the holds are

    def keeper(self, hold: Hold) -> Keeper | None:
        """Return the gang of a hold; None for one without pods, whose holds end at once."""
        gang_id = gang_of_hold(hold)
        first = self.any_pod(gang_id) if gang_id is not None else None
        if gang_id is None or first is None:
            return None
        return Keeper(
            id=gang_id,
            kind=GANG,
            namespace=first.metadata.namespace,
            name=gang_name(first)[1],
            workload=workload_of(first),
        )

    def waiting(self, keeper: Keeper) -> Waiting:
        """Return the GPUs of pods that exist and book nothing by themselves yet; O(pods)."""
        has_pod = self.budget.state.bookings.has_pod
        gpus: dict[int, int] = {}
        for pod in self.pods_of(GangId(keeper.id)):
            if not (pod.finished or pod.terminating or has_pod(pod.metadata.uid)):
                gpus[pod.rank] = max(pod.gpus, gpus.get(pod.rank, 0))
        return Waiting([*gpus.values()])

    def booked_until_s(self, gang_id: GangId) -> float:
        """Return when the last hold of a gang ends; -inf without one. O(its holds)."""
        found = (self.budget.state.find_hold(hold) for hold in self.holds_of(gang_id))
        times = (hold.deadline_s for hold in found if isinstance(hold, Hold))
        return max((inf if each is None else each for each in times), default=-inf)

    # What is asked

    def beyond_budget(self, gang: Gang, pods: Sequence[GangPod], lacking: Lacking) -> str:
        """Return why the gang may not keep places for the pods that it lacks; empty if it may.

        For a gang that lacks some O(members, and what its namespace keeps).
        """
        self.forget(gang.id)
        until_s = lacking.until_s
        if not lacking.pods or gang.ungated:
            return ""
        asked = self._request(gang.id, pods, lacking.pods, gang.request.gpus_per_pod)
        asked = replace(asked, own={*gang.holds, *gang.booked})
        types = self.budget.state.capacity.types_for(gang.request.eligible)
        why = self.budget.of(gang.namespace).excess_of_any(asked, types)
        why = why or self._beyond_members(gang, lacking)
        if why:
            self._beyond[gang.id] = gang.created_s, asked, types, why
        elif until_s < inf:
            self._until_s[gang.id] = until_s
            self._claims[gang.id] = self._claim(gang, asked)
        return why

    def _beyond_members(self, gang: Gang, lacking: Lacking) -> str:
        """Return why places for the pods that a gang lacks are not looked for yet; empty if so.

        Each is a member in memory while the gang waits for its turn, and nothing is kept yet.
        """
        if lacking.until_s < inf:
            return ""
        others = sum(pods for of, pods in self._expected.values() if of == gang.namespace)
        if others + lacking.pods > MAX_PODS_AHEAD:
            return (
                f"the jobs of namespace {gang.namespace} that wait lack {others} pods, this one"
                f" {lacking.pods} more, and places for at most {MAX_PODS_AHEAD} are looked for at"
                " once; end some of them, or have all of its pods made at once"
            )
        self._expected[gang.id] = gang.namespace, lacking.pods
        return ""

    def _claim(self, gang: Gang, asked: AheadRequest) -> KeptAhead:
        """Return what a gang that has begun may keep; of the GPUs that its pods have."""
        nodes = (m.node or (m.note.node if m.note is not None else None) for m in gang.members)
        hosts = (self.budget.state.capacity.host(node) for node in nodes if node is not None)
        gpu_type = next((host.gpu_type for host in hosts if host is not None), "")
        return replace(asked, gpu_type=gpu_type).claim(GANG, gang.name)

    def excess(
        self, gang_id: GangId, members: Iterable[Member], gpus: int, own: Iterable[HoldId]
    ) -> Callable[[str], str]:
        """Return what says why a hold for these members may not be of a type of GPUs.

        It is empty where it may, also where none of them is for a pod that is not there.
        """
        lacks, pods = sum(1 for each in members if each.is_expected), self.pods_of(gang_id)
        if not lacks or not pods:
            return lambda _gpu_type: ""
        asked = self._request(gang_id, pods, lacks, gpus)
        asked = replace(asked, own={*own})
        return lambda gpu_type: self.budget.excess(replace(asked, gpu_type=gpu_type))

    @staticmethod
    def _request(
        gang_id: GangId, pods: Sequence[GangPod], lacks: int, gpus_per_pod: int
    ) -> AheadRequest:
        using = next((pod for pod in pods if pod.gpus), None)
        return AheadRequest(
            id=f"{GANG_KEYS}{gang_id}",
            namespace=pods[0].metadata.namespace,
            gpus=lacks * gpus_per_pod,
            gpu_type="",
            pods=lacks,
            resource=using.resource if using is not None else None,
            workload=workload_of(pods[0]),
        )

    def why(self, gang_id: GangId) -> str:
        """Return why no places are kept for further pods of a gang; empty where they are."""
        found = self._beyond.get(gang_id)
        return found[3] if found is not None else ""

    # What changes by time, or by what others keep

    def forget(self, gang_id: GangId) -> None:
        """Forget a gang that is gone, or is read again."""
        for each in (self._beyond, self._until_s, self._claims, self._expected):
            each.pop(gang_id, None)

    def due(self, now_s: float) -> Iterator[GangId]:
        """Yield the gangs to read again: the time of their places is over, or they may have some.

        O(gangs that keep places), and O(what their namespaces keep) for `LOOKED_AT` that wait.
        """
        yield from [gang for gang, until_s in self._until_s.items() if until_s <= now_s]
        budgets: dict[str, NamespaceBudget] = {}
        oldest = sorted(self._beyond, key=lambda gang: (self._beyond[gang][0], gang))
        for gang_id in oldest[:LOOKED_AT]:
            _, asked, types, _ = self._beyond[gang_id]
            if asked.namespace not in budgets:
                budgets[asked.namespace] = self.budget.of(asked.namespace)
            if not budgets[asked.namespace].excess_of_any(asked, types):
                yield gang_id


def workload_of(pod: GangPod) -> str:
    """Return the Workload by which Kueue admitted a pod; empty for none."""
    if pod.workload:
        return pod.workload
    return pod.consumes.partition("/")[2] if is_workload(pod.consumes) else ""
