"""Gangs whose nodes their scheduler chooses: their status follows from the nodes of their pods.

Volcano may be configured to ignore groups, an operator may change a PodGroup, a recreated pod may
be bound elsewhere. So the status depends on the nodes of the bound pods, not on the request.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from master.controllers.nomination.gangs.builder import build_gang
from master.controllers.nomination.gangs.context import GangContext
from master.controllers.nomination.native import NativeGangs
from master.controllers.nomination.status.policy import Shown
from master.controllers.nomination.status.status_store import StatusStore
from master.kube.gang_pod import GangPod
from master.kube.schedulers.conditions import explanation
from master.kube.schedulers.scheduling_groups import SchedulingGroupObject
from master.kube.schedulers.volcano import TOPOLOGY_MODE_HARD, NetworkTopology, PodGroupObject
from master.object_errors import ObjectErrors, ObjectKind
from topo.gangs.machine.gang import GangId
from topo.gangs.native_status import NativeAsked, Nearness, TreeLookup, native_status
from topo.model.conditions.gang_states import GangState
from topo.model.isolation import ObjectError, attempt
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.view import shape_of

LOOK_S = 1.0
"""How long it counts whether any node has a label: to see that none has takes a look at all."""
PODS_AT_ONCE = 1000
"""Pods that are read before other tasks get a turn, some ten milliseconds."""


class LabelledNodes:
    """Which labels any node of the cluster has. One owner."""

    def __init__(self, context: GangContext) -> None:
        self._context = context
        self._seen: dict[str, tuple[float, bool]] = {}
        """By label: when it was looked for, and whether it was missing."""

    def lack(self, key: str) -> bool:
        """Return whether there are nodes and none has the label; O(nodes), once a second."""
        now_s = self._context.clock()
        at_s, is_missing = self._seen.get(key, (-LOOK_S, False))
        if now_s - at_s >= LOOK_S:
            labels = [node.metadata.labels for node in self._context.nodes()]
            is_missing = bool(labels) and not any(key in each for each in labels)
            self._seen[key] = now_s, is_missing
        return is_missing


@dataclass(frozen=True, slots=True, kw_only=True)
class NativePolicy:
    """`unheeded`: why Volcano ignores groups; empty if it honours them."""

    gangs: NativeGangs
    context: GangContext
    capacity: Callable[[], CapacityView]
    unheeded: Callable[[], str]
    store: StatusStore
    labelled: LabelledNodes
    errors: ObjectErrors = field(default_factory=ObjectErrors)

    def all(self) -> Iterator[Shown]:
        """Yield all gangs that can be read; O(pods)."""
        for job in self.gangs.jobs():
            found = attempt(partial(self.get, job))
            if found is not None and not isinstance(found, ObjectError):
                yield found

    def get(self, gang_id: GangId) -> Shown | None:
        """Return a gang; None if it is not native."""
        pods = self.gangs.pods(gang_id)
        if not pods:
            return None
        gang = build_gang(gang_id, pods, self.context)
        asked = self._asked(pods[0])
        capacity = self.capacity()
        tree = TreeLookup(
            host=capacity.host,
            kind_of_tier=self.context.kind_of_tier,
            lowest=lambda request, gpu_type: shape_of(capacity, request, gpu_type).whole_in,
        )
        return gang, native_status(gang, asked, tree)

    def _asked(self, pod: GangPod) -> NativeAsked | None:
        """Return what the PodGroup of a pod asks of its scheduler; None if it is not known."""
        if (group := self.context.pod_group(pod)) is not None:
            return _asked(group, self.unheeded())
        if pod.is_of_kueue:
            return self._if_labelled(pod.topology_key, _asked_of_kueue(pod, self.context))
        of_kubernetes = self.context.scheduling_group(pod)
        if of_kubernetes is None:
            return None
        asked = _asked_of_kubernetes(of_kubernetes, self.context)
        return self._if_labelled(of_kubernetes.spec.topology_key, asked)

    def _if_labelled(self, key: str, asked: NativeAsked) -> NativeAsked:
        is_missing = bool(key) and self.labelled.lack(key)
        return replace(asked, unlabelled=key) if is_missing else asked

    def report(self) -> None:
        """Report changed gangs; O(their pods), at most `PODS_AT_ONCE` pods and one gang more.

        Only what no scheduler tells in its own Events is announced: a split group, missing labels.
        """
        for gang_id in self.gangs.take(PODS_AT_ONCE):
            self.errors.run(ObjectKind.GANG, str(gang_id), partial(self._report_one, gang_id))

    def _report_one(self, gang_id: GangId) -> None:
        found = self.get(gang_id)
        if found is None:
            self.store.forget(gang_id)
            return
        gang, status = found
        is_told = status.state in (GangState.SPLIT, GangState.NO_LABELS)
        self.store.report(gang, status.state, status.text, announce=is_told)


def _asked(group: PodGroupObject, unheeded: str) -> NativeAsked:
    spec, status = group.spec, group.status
    why = explanation(status.conditions)
    return NativeAsked(
        policies=[
            _near(each.network_topology, each.sub_group_size) for each in spec.sub_group_policy
        ],
        together=_near(spec.network_topology) if spec.network_topology is not None else None,
        phase=f"{status.phase}: {why[:200]}" if why else status.phase,
        unheeded=unheeded,
    )


def _asked_of_kubernetes(group: SchedulingGroupObject, context: GangContext) -> NativeAsked:
    kind = context.kind_of_label(group.spec.topology_key)
    tier = context.tier_of_kind(kind) if kind is not None else None
    return NativeAsked(
        policies=[Nearness(tier)] if group.spec.topology_key else [],
        phase=explanation(group.status.conditions)[:200],
        scheduler="kube-scheduler",
        dropped="its constraint is not kept without the gate TopologyAwareWorkloadScheduling",
    )


def _asked_of_kueue(pod: GangPod, context: GangContext) -> NativeAsked:
    """Return what the pod's template asks of Kueue; slices are required, so no label is soft."""
    kind = context.kind_of_label(pod.topology_key)
    tier = context.tier_of_kind(kind) if kind is not None else None
    return NativeAsked(policies=[Nearness(tier)], scheduler="Kueue")


def _near(topology: NetworkTopology | None, pods: int | None = None) -> Nearness:
    is_hard = topology is not None and topology.mode == TOPOLOGY_MODE_HARD
    return Nearness(topology.highest_tier_allowed if topology and is_hard else None, pods)
