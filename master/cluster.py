"""A master's parts of Kubernetes, composed; no I/O.

A part is built in `build_cluster`; its background work is a line of `composition/cluster_works.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

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
    KubeObject,
    NodeObject,
    QuotaObject,
    Resource,
    parsed,
)
from master.kube.provisioning import (
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    KnownRequest,
    KnownTemplate,
    known_request,
    known_template,
)
from master.kube.rate import RequestRate
from master.kube.reflector import Reflector, Scope
from master.kube.schedulers.composite_groups import (
    COMPOSITE_GROUPS,
    CompositeGroupObject,
    GroupTrees,
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

T = TypeVar("T", bound=KubeObject)
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
    metrics, config_map = KubeMetrics(registry), settings.device_config
    written = WriterMetrics(registry)
    client = KubeClient(
        config,
        rate=rate,
        observe=metrics.count_request,
        clock=clock,
    )
    pods, ended_pods = _pod_reflectors(client, settings, metrics, room)

    def follow(resource: Resource[T]) -> Reflector[T]:
        return Reflector(client, resource, metrics=metrics, clock=clock)

    slices = follow(parsed(RESOURCE_SLICES, device_slice))
    device_classes = follow(parsed(DEVICE_CLASSES, device_class))
    claim_templates = follow(parsed(CLAIM_TEMPLATES, claim_template))
    device_claims = follow(parsed(RESOURCE_CLAIMS, device_claim))
    scheduling_groups = Reflector(
        client, SCHEDULING_GROUPS, metrics=metrics, label="scheduling-groups", clock=clock
    )
    composite_groups = follow(COMPOSITE_GROUPS)
    return Cluster(
        client=client,
        metrics=metrics,
        nodes=follow(NODES),
        pods=pods,
        device_config=None
        if config_map is None
        else Reflector(
            client, CONFIG_MAPS, metrics=metrics, scope=config_map_scope(*config_map), clock=clock
        ),
        hypernodes=follow(HYPERNODES),
        pod_groups=follow(POD_GROUPS),
        queues=follow(QUEUES),
        ended_pods=ended_pods,
        quotas=follow(QUOTAS),
        scheduling_groups=scheduling_groups,
        composite_groups=composite_groups,
        group_trees=GroupTrees(scheduling_groups, composite_groups),
        claims=follow(CLAIMS),
        volumes=follow(VOLUMES),
        storage_classes=follow(STORAGE_CLASSES),
        slices=slices,
        device_classes=device_classes,
        claim_templates=claim_templates,
        device_claims=device_claims,
        devices=DeviceCounts(slices, device_classes, claim_templates, device_claims),
        taint_rules=follow(DEVICE_TAINT_RULES),
        gangs=follow(GANGS),
        topologies={
            name: {
                each: Reflector(
                    client,
                    each,
                    metrics=metrics,
                    label=f"{name.partition('-')[0]}-{each.plural}",
                    clock=clock,
                )
                for each in FORMATS[name].followed
            }
            for name in FORMATS.keys() & set(settings.controllers)
        },
        requests=_request_reflector(client, settings, metrics),
        templates=follow(parsed(POD_TEMPLATES, known_template)),
        workloads=follow(WORKLOADS),
        admission_checks=follow(ADMISSION_CHECKS),
        kueue_flavors=Reflector(
            client, KUEUE_FLAVORS, metrics=metrics, label="workload-flavors", clock=clock
        ),
        writer=Writer(client, written, rate=rate, clock=clock),
        gang_writer=Writer(client, written, rate=gang_rate, clock=clock),
        reviews=TokenReviews(client.call, registry, nodes=MAX_NODES, clock=clock),
    )


def _request_reflector(
    client: KubeClient, settings: MasterSettings, metrics: KubeMetrics
) -> Reflector[KnownRequest]:
    """Return the reflector of ProvisioningRequests of our class."""
    ours = AnnotationKeys(settings.domain).provisioning_class
    return Reflector(
        client,
        parsed(PROVISIONING_REQUESTS, known_request),
        metrics=metrics,
        scope=Scope(keep=lambda known: known.class_name == ours),
        clock=client.clock,
    )


def _pod_reflectors(
    client: KubeClient, settings: MasterSettings, metrics: KubeMetrics, room: NodeRoom
) -> tuple[Reflector[ClusterPod], Reflector[EndedPod]]:
    """Return the reflectors of unfinished pods, and of pods of gangs that have succeeded."""
    way = Way.NATIVE if settings.placement == "native" else Way.NOMINATION
    keys = AnnotationKeys(settings.domain)
    parser = PodParser(settings.policy, keys, way)
    pods = Reflector(
        client,
        parsed(PODS, parser.parse),
        metrics=metrics,
        scope=Scope(query=UNFINISHED, keep=lambda pod: pod.names_cards, dropped=OtherPods(room)),
        clock=client.clock,
    )
    ended_pods = Reflector(
        client,
        parsed(PODS, parser.parse_ended),
        metrics=metrics,
        scope=Scope(
            query={**SUCCEEDED, "labelSelector": keys.group},
            keep=lambda pod: bool(pod.gang_id),
        ),
        label="ended-pods",
        clock=client.clock,
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
        topologies=cluster.topologies,
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
