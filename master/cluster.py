"""The cluster that a master runs in, as its parts see it; `composition/cluster.py` builds it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from master.kube.advice import next_step
from master.kube.client import KubeClient
from master.kube.dra.claims import ClaimTemplate, DeviceClaim, DeviceClass
from master.kube.dra.counts import DeviceCounts
from master.kube.dra.slices import DeviceSlice
from master.kube.dra.taint_rules import DeviceTaintRuleObject
from master.kube.gang_object import GangObject
from master.kube.gang_pod import ClusterPod, EndedPod
from master.kube.metrics import KubeMetrics
from master.kube.objects import NODES, PODS, ConfigMapObject, NodeObject, QuotaObject, Resource
from master.kube.reflector import Reflector
from master.kube.schedulers.composite_groups import CompositeGroupObject, GroupTrees
from master.kube.schedulers.hypernodes import HyperNodeObject
from master.kube.schedulers.jobs import JobObject
from master.kube.schedulers.node_features import NodeFeatureObject
from master.kube.schedulers.provisioning import KnownRequest, KnownTemplate
from master.kube.schedulers.scheduling_groups import SchedulingGroupObject
from master.kube.schedulers.topologies import TopologyObject
from master.kube.schedulers.volcano import PodGroupObject, QueueObject
from master.kube.schedulers.workloads import AdmissionCheckObject, WorkloadObject
from master.kube.service_accounts.token_review import TokenReviews
from master.kube.volumes import ClaimObject, StorageClassObject, VolumeObject
from master.kube.writing.writer import Writer
from topo.model.conditions.master import MasterCondition
from topo.model.rest.topology import WarningDocument

WARN_AFTER_S = 30.0
"""A watch breaks now and then and recovers within seconds; a longer failure is a warning."""

_UNFOLLOWED = {
    NODES.plural: MasterCondition.KUBERNETES_NODES,
    PODS.plural: MasterCondition.KUBERNETES_PODS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster that this master runs in: client, reflectors and writers."""

    client: KubeClient
    metrics: KubeMetrics
    nodes: Reflector[NodeObject]
    pods: Reflector[ClusterPod]
    hypernodes: Reflector[HyperNodeObject]
    """Volcano's; the kind does not exist where Volcano is not installed."""
    pod_groups: Reflector[PodGroupObject]
    queues: Reflector[QueueObject]
    """Both are Volcano's, too."""
    quotas: Reflector[QuotaObject]
    ended_pods: Reflector[EndedPod]
    """Pods of gangs that have succeeded or failed for good, which `pods` leaves out."""
    jobs: Mapping[str, Reflector[JobObject]]
    """By the name of their kind, the jobs that ask for groups and say how many pods they have."""
    scheduling_groups: Reflector[SchedulingGroupObject]
    composite_groups: Reflector[CompositeGroupObject]
    group_trees: GroupTrees
    """PodGroups of Kubernetes; the kind does not exist where its gate is off."""
    claims: Reflector[ClaimObject]
    volumes: Reflector[VolumeObject]
    storage_classes: Reflector[StorageClassObject]
    slices: Reflector[DeviceSlice]
    device_classes: Reflector[DeviceClass]
    claim_templates: Reflector[ClaimTemplate]
    device_claims: Reflector[DeviceClaim]
    taint_rules: Reflector[DeviceTaintRuleObject]
    """These are of dynamic resource allocation."""
    devices: DeviceCounts
    gangs: Reflector[GangObject]
    """Ours; the kind does not exist where the chart does not define it."""
    topologies: Mapping[str, Mapping[Resource[Any], Reflector[Any]]]
    """Of other schedulers: what is followed for each format that is switched on."""
    node_features: Reflector[NodeFeatureObject]
    """NFD's, of this master's namespace; only those that are called like ours are kept."""
    requests: Reflector[KnownRequest]
    """ProvisioningRequests of our class; the kind does not exist where nobody defined it."""
    templates: Reflector[KnownTemplate]
    workloads: Reflector[WorkloadObject]
    admission_checks: Reflector[AdmissionCheckObject]
    kueue_flavors: Reflector[TopologyObject]
    """Kueue's, for the controller of its workloads."""
    writer: Writer
    gang_writer: Writer
    """Writes that gangs wait for: they do not queue behind the labels of all nodes."""
    device_config: Reflector[ConfigMapObject] | None
    """The vendor's ConfigMap of devices, which may be absent; None where it is not read."""
    reviews: TokenReviews

    @property
    def reflectors(self) -> tuple[Reflector[NodeObject], Reflector[ClusterPod]]:
        """The reflectors that a master needs to know its cluster."""
        return self.nodes, self.pods

    @property
    def named(self) -> tuple[Reflector[Any], ...]:
        """The reflectors of what pods name: volumes and devices."""
        return (
            *(self.claims, self.volumes, self.storage_classes),
            *(self.slices, self.device_classes, self.claim_templates, self.device_claims),
        )

    @property
    def of_kueue(self) -> tuple[Reflector[Any], ...]:
        """The reflectors of what is known of Kueue's workloads."""
        return self.workloads, self.admission_checks, self.kueue_flavors

    def missing(self) -> tuple[str, ...]:
        """Return what was never listed yet, and why; empty once all was."""
        return tuple(
            f"the {reflector.name} of Kubernetes are not listed yet"
            + (f": {reflector.trouble.message}" if reflector.trouble else "")
            for reflector in self.reflectors
            if not reflector.synced
        )

    @property
    def warnings(self) -> tuple[WarningDocument, ...]:
        """The resources that cannot be followed, and the next step."""
        found = []
        for reflector in self.reflectors:
            trouble = reflector.trouble
            if trouble is None or (reflector.synced and reflector.silent_s() < WARN_AFTER_S):
                continue
            known = "what was known of them stays" if reflector.synced else "none is known"
            what = f"the {reflector.name} of Kubernetes cannot be followed, {known}"
            text = f"{what}: {trouble.message}"
            found.append(WarningDocument.of(_UNFOLLOWED[reflector.name], text, next_step(trouble)))
        return tuple(found)
