"""A master's parts of Kubernetes, composed; no I/O.

A part is built in `build_cluster`; its background work is a line of `composition/cluster_works.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import prometheus_client as prom
import structlog

from master.booking.state import BookingState
from master.controllers.events import PRODUCT, service_object
from master.controllers.nomination.controller import Nomination
from master.controllers.provisioning.controller import ProvisioningController
from master.controllers.retention_grace import RetentionGrace
from master.controllers.table import (
    Controllers,
    ControllerView,
    build_controllers,
)
from master.controllers.topologies import FORMATS
from master.kube.advice import next_step
from master.kube.client import KubeClient
from master.kube.dra.claims import (
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    ClaimTemplate,
    DeviceClaim,
    DeviceClass,
    claim_template,
    device_claim,
    device_class,
)
from master.kube.dra.counts import DeviceCounts
from master.kube.dra.slices import RESOURCE_SLICES, DeviceSlice, device_slice
from master.kube.dra.taint_rules import DEVICE_TAINT_RULES, DeviceTaintRuleObject
from master.kube.gang_object import GANGS, GangObject
from master.kube.gang_pod import ClusterPod, EndedPod
from master.kube.metrics import KubeMetrics
from master.kube.objects import (
    CONFIG_MAPS,
    HYPERNODES,
    NODES,
    PODS,
    QUOTAS,
    SUCCEEDED,
    UNFINISHED,
    ConfigMapObject,
    HyperNodeObject,
    NodeObject,
    QuotaObject,
    Resource,
    parsed,
)
from master.kube.rate import RequestRate
from master.kube.reflector import Reflector, Scope
from master.kube.schedulers.composite_groups import (
    COMPOSITE_GROUPS,
    CompositeGroupObject,
    GroupTrees,
)
from master.kube.schedulers.node_features import NODE_FEATURES, NodeFeatureObject
from master.kube.schedulers.provisioning import (
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    KnownRequest,
    KnownTemplate,
    known_request,
    known_template,
)
from master.kube.schedulers.scheduling_groups import SCHEDULING_GROUPS, SchedulingGroupObject
from master.kube.schedulers.topologies import KUEUE_FLAVORS, TopologyObject
from master.kube.schedulers.volcano import POD_GROUPS, QUEUES, PodGroupObject, QueueObject
from master.kube.schedulers.workloads import (
    ADMISSION_CHECKS,
    WORKLOADS,
    AdmissionCheckObject,
    WorkloadObject,
)
from master.kube.service_accounts.token_review import TokenReviews
from master.kube.volumes import (
    CLAIMS,
    STORAGE_CLASSES,
    VOLUMES,
    ClaimObject,
    StorageClassObject,
    VolumeObject,
)
from master.kube.writing.writer import Writer, WriterMetrics
from master.settings import MasterSettings
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.kubernetes.device_config import DeviceConfig, config_map_scope
from master.sources.kubernetes.other_pods import OtherPods
from master.sources.kubernetes.pods import PodParser
from master.sources.workers.sessions import MAX_NODES
from master.tree.engine import Clock, Engine
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.terms import Way
from topo.model.conditions.master import MasterCondition
from topo.model.rest.topology import WarningDocument
from topo.placement.capacity.node_room import NodeRoom
from topo.publish.event_series import Reporter
from topo.publish.node_features import node_of

WARN_AFTER_S = 30.0
"""A watch breaks now and then and recovers within seconds; a longer failure is a warning."""
GANG_RATE = 4
"""Writes for gangs have a rate of their own, this many times `--kube-qps` and its burst: people
wait for them, and a gang of 1,000 pods takes 3,000 writes."""

_log = structlog.get_logger(__name__)

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
    """Pods of gangs that have succeeded, which `pods` leaves out."""
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


_FOLLOWED: Mapping[str, Resource[Any]] = {
    "nodes": NODES,
    "hypernodes": HYPERNODES,
    "pod_groups": POD_GROUPS,
    "queues": QUEUES,
    "quotas": QUOTAS,
    "scheduling_groups": SCHEDULING_GROUPS,
    "composite_groups": COMPOSITE_GROUPS,
    "claims": CLAIMS,
    "volumes": VOLUMES,
    "storage_classes": STORAGE_CLASSES,
    "slices": parsed(RESOURCE_SLICES, device_slice),
    "device_classes": parsed(DEVICE_CLASSES, device_class),
    "claim_templates": parsed(CLAIM_TEMPLATES, claim_template),
    "device_claims": parsed(RESOURCE_CLAIMS, device_claim),
    "taint_rules": DEVICE_TAINT_RULES,
    "gangs": GANGS,
    "templates": parsed(POD_TEMPLATES, known_template),
    "workloads": WORKLOADS,
    "admission_checks": ADMISSION_CHECKS,
    "kueue_flavors": KUEUE_FLAVORS,
}
"""The collections that the master follows whole; the key is the field of `Cluster`."""
_LABELS = {"scheduling_groups": "scheduling-groups", "kueue_flavors": "workload-flavors"}
"""Names in logs and metrics of those whose plural another one has, too."""


def build_cluster(
    settings: MasterSettings, registry: prom.CollectorRegistry, clock: Clock, room: NodeRoom
) -> Cluster | None:
    """Return the parts, not opened yet; None for a master without Kubernetes.

    `room` is told of the pods that take no cards.

    Reads the disk to find out whether this is a pod. Raises `BadInputError`.
    """
    config = settings.kube_config
    if config is None:
        return None
    rate = RequestRate(settings.kube_qps, settings.kube_burst, clock).take
    gang_rate = RequestRate(
        GANG_RATE * settings.kube_qps, GANG_RATE * settings.kube_burst, clock
    ).take
    metrics, written = KubeMetrics(registry), WriterMetrics(registry)
    client = KubeClient(config, rate=rate, observe=metrics.count_request, clock=clock)

    def follow(resource: Resource[Any], **how: Any) -> Reflector[Any]:
        return Reflector(client, resource, metrics=metrics, clock=clock, **how)

    of = {name: follow(each, label=_LABELS.get(name, "")) for name, each in _FOLLOWED.items()}
    config_map = settings.device_config
    pods, ended_pods = _pod_reflectors(follow, settings, room)
    ours = AnnotationKeys(settings.domain).provisioning_class
    return Cluster(
        **of,
        client=client,
        metrics=metrics,
        pods=pods,
        ended_pods=ended_pods,
        requests=follow(
            parsed(PROVISIONING_REQUESTS, known_request),
            scope=Scope(keep=lambda known: known.class_name == ours),
        ),
        device_config=None
        if config_map is None
        else follow(CONFIG_MAPS, scope=config_map_scope(*config_map)),
        group_trees=GroupTrees(of["scheduling_groups"], of["composite_groups"]),
        devices=DeviceCounts(
            *(of["slices"], of["device_classes"], of["claim_templates"], of["device_claims"])
        ),
        topologies={
            name: {
                each: follow(each, label=f"{name.partition('-')[0]}-{each.plural}")
                for each in FORMATS[name].followed
            }
            for name in FORMATS.keys() & set(settings.controllers)
        },
        node_features=follow(
            NODE_FEATURES,
            scope=Scope(
                namespace=settings.pod_namespace,
                keep=lambda each: bool(node_of(each.metadata.name)),
            ),
        ),
        writer=Writer(client, written, rate=rate, clock=clock),
        gang_writer=Writer(client, written, rate=gang_rate, clock=clock),
        reviews=TokenReviews(client.call, registry, nodes=MAX_NODES, clock=clock),
    )


def _pod_reflectors(
    follow: Callable[..., Reflector[Any]], settings: MasterSettings, room: NodeRoom
) -> tuple[Reflector[ClusterPod], Reflector[EndedPod]]:
    """Return the reflectors of unfinished pods, and of pods of gangs that have succeeded."""
    way = Way.NATIVE if settings.placement == "native" else Way.NOMINATION
    keys = AnnotationKeys(settings.domain)
    parser = PodParser(settings.policy, keys, way)
    pods = follow(
        parsed(PODS, parser.parse),
        scope=Scope(query=UNFINISHED, keep=lambda pod: pod.names_cards, dropped=OtherPods(room)),
    )
    of_gangs = {**SUCCEEDED, "labelSelector": keys.group}
    ended_pods = follow(
        parsed(PODS, parser.parse_ended),
        scope=Scope(query=of_gangs, keep=lambda pod: bool(pod.gang_id)),
        label="ended-pods",
    )
    return pods, ended_pods


def cluster_controllers(
    cluster: Cluster | None,
    settings: MasterSettings,
    engine: Engine,
    *,
    registry: prom.CollectorRegistry,
    is_settled: Callable[[], bool],
    nomination: Callable[[Cluster], Nomination],
    provisioning: Mapping[str, ProvisioningController],
) -> Controllers:
    """Return the controllers that are switched on and follow the engine; none without Kubernetes.

    `is_settled`: the forest may be published. `nomination` builds the controller of gangs,
    `provisioning` are those of requests for capacity that are switched on.
    """
    if cluster is None:
        return Controllers()
    forget_at_s = engine.clock() + settings.discovery.forget_s
    view = ControllerView(
        nodes=cluster.nodes,
        hypernodes=cluster.hypernodes,
        writer=cluster.writer,
        forest=lambda: engine.snapshot.forest,
        snapshot=lambda: engine.snapshot,
        facts=engine.facts_of,
        is_settled=lambda: cluster.nodes.synced and is_settled(),
        grace=RetentionGrace(cluster.nodes, forget_at_s, engine.clock),
        domain=settings.domain,
        label_keys=settings.label_keys,
        reporter=Reporter(PRODUCT, settings.pod_name or PRODUCT),
        about_service=partial(
            service_object,
            cluster.client,
            settings.pod_namespace,
            settings.pod_name,
        ),
        registry=registry,
        gangs=cluster.gangs,
        pods=cluster.pods,
        scheduling_groups=cluster.scheduling_groups,
        composite_groups=cluster.composite_groups,
        slices=cluster.slices,
        taint_rules=cluster.taint_rules,
        judged_gpus=engine.judged_gpus,
        taint_effect=settings.device_taint_effect,
        suspected=lambda: engine.suspected,
        server_now=cluster.client.server_clock.now,
        topologies=cluster.topologies,
        node_features=cluster.node_features,
        namespace=settings.pod_namespace,
        nominates=settings.placement == "nomination",
        nomination=cache(partial(nomination, cluster)),
        provisioning=provisioning,
    )
    controllers = build_controllers(view, settings.controllers)
    engine.on_published.append(controllers.on_forest)
    return controllers


def cluster_capacity(cluster: Cluster | None, state: BookingState) -> ClusterCapacity | None:
    """Return what feeds the bookings with nodes and pods; None without Kubernetes."""
    if cluster is None:
        return None
    capacity = ClusterCapacity(state, cluster.nodes, cluster.pods, cluster.devices)
    if cluster.device_config is not None:
        DeviceConfig(cluster.device_config, capacity)
    return capacity
