"""What is read, besides its pods, to build a gang."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from master.controllers.nomination.queues.quota import AskedGpus, MissingQuota
from master.controllers.nomination.sources import Reservation
from master.kube.gang_pod import EndedPod, GangPod, LabelIn
from master.kube.objects import Key, NodeObject
from master.kube.schedulers.composite_groups import CompositeGroupObject
from master.kube.schedulers.scheduling_groups import SchedulingGroupObject
from master.kube.schedulers.volcano import PodGroupObject
from master.kube.schema.affinity import NodeSelector
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_ranks import JobRanks
from topo.gangs.machine.gang import Gang, GangId, HeldPlaces, Selection
from topo.model.ids import Kind, NodeName
from topo.model.pod_requests import Amounts


class Lacking(NamedTuple):
    """Pods that a gang lacks, and until when places are kept for them, on the master's clock."""

    pods: int
    until_s: float


@dataclass(kw_only=True)
class GangContext:
    """The facts, besides its pods, from which a gang is built; each callable is read per gang.

    `pod_groups` is None where Volcano is not installed, `scheduling_groups` and `composite_groups`
    where those are not listed. `missing_quota` returns why a queue cannot take a number of GPUs
    now. `kind_of_tier` returns the kind of group that a Volcano tier number stands for,
    `tier_of_kind` the reverse, `kind_of_label` the kind whose name a node label holds. `devices`
    returns the devices that the claims of a pod take. `ended` returns the pods of a gang that have
    succeeded, or failed for good. `job_ranks` returns the ranks that a gang's job has now, None
    where that is not known. `ungated` maps gangs whose gates a person wants opened to the reason.
    `reservation` returns what a request has booked, None where those are not answered.
    `booked_until_s` returns when the last hold of a gang ends, on `clock`. `beyond_budget` returns
    why the namespace of a gang may not keep places for the pods that it lacks. `ahead_s` is Unix
    time minus the master's clock; it is constant during a leader's term.
    """

    keys: AnnotationKeys
    nodes: Callable[[], Iterable[NodeObject]]
    pod_groups: Callable[[], Mapping[Key, PodGroupObject] | None]
    scheduling_groups: Callable[[], Mapping[Key, SchedulingGroupObject] | None]
    composite_groups: Callable[[], Mapping[Key, CompositeGroupObject] | None]
    missing_quota: Callable[[AskedGpus], MissingQuota | None]
    kind_of_tier: Callable[[int], Kind | None]
    tier_of_kind: Callable[[Kind], int | None]
    kind_of_label: Callable[[str], Kind | None]
    labelled: Callable[[GangId], Mapping[NodeName, Selection]]
    holds: Callable[[GangId], HeldPlaces]
    devices: Callable[[GangPod], Amounts]
    volume_nodes: Callable[[GangPod], tuple[NodeSelector | LabelIn, ...]]
    missing_volume: Callable[[GangPod], str]
    ended: Callable[[GangId], Iterable[EndedPod]]
    job_ranks: Callable[[GangId], JobRanks | None] = lambda _: None
    ungated: Mapping[GangId, str] = field(default_factory=dict)
    reservation: Callable[[Key], Reservation | None] | None = None
    booked_until_s: Callable[[GangId], float] = lambda _: -inf
    beyond_budget: Callable[[Gang, Sequence[GangPod], Lacking], str] = lambda *_: ""
    clock: Callable[[], float] = time.monotonic
    ahead_s: float = 0.0

    def pod_group(self, pod: GangPod) -> PodGroupObject | None:
        """Return the PodGroup of a pod; None if it has none or the PodGroup is unknown."""
        groups = self.pod_groups() if pod.pod_group is not None else None
        return groups.get(pod.pod_group) if groups and pod.pod_group is not None else None

    def scheduling_group(self, pod: GangPod) -> SchedulingGroupObject | None:
        """Return the PodGroup of Kubernetes of a pod; None if it has none or it is unknown."""
        groups = self.scheduling_groups() if pod.scheduling_group is not None else None
        return groups.get(pod.scheduling_group) if groups and pod.scheduling_group else None

    def composite_group(self, pod: GangPod) -> CompositeGroupObject | None:
        """Return the CompositePodGroup that is a pod's gang; None if it has none or unknown."""
        groups = self.composite_groups() if pod.composite_group is not None else None
        return groups.get(pod.composite_group) if groups and pod.composite_group else None
