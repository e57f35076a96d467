"""The client, reflectors and writers of a master in a cluster, built from the settings; no I/O.

The background work of a part is a line of `cluster_works.py`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import prometheus_client as prom

from master.booking.state import BookingState
from master.cluster import Cluster
from master.controllers.topologies import FORMATS
from master.kube.client import KubeClient
from master.kube.dra.claims import (
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    claim_template,
    device_claim,
    device_class,
)
from master.kube.dra.counts import DeviceCounts
from master.kube.dra.slices import RESOURCE_SLICES, device_slice
from master.kube.dra.taint_rules import DEVICE_TAINT_RULES
from master.kube.gang_object import GANGS
from master.kube.gang_pod import ClusterPod, EndedPod, GangPod
from master.kube.metrics import KubeMetrics
from master.kube.objects import (
    CONFIG_MAPS,
    ENDED,
    NODES,
    PODS,
    QUOTAS,
    UNFINISHED,
    ConfigMapObject,
    Resource,
    parsed,
)
from master.kube.rate import RequestRate
from master.kube.reflector import Reflector, Scope
from master.kube.schedulers.composite_groups import COMPOSITE_GROUPS, GroupTrees
from master.kube.schedulers.hypernodes import HYPERNODES
from master.kube.schedulers.jobs import SIZED_KINDS, read_resource
from master.kube.schedulers.node_features import NODE_FEATURES, NodeFeatureObject
from master.kube.schedulers.provisioning import (
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    KnownRequest,
    known_request,
    known_template,
)
from master.kube.schedulers.scheduling_groups import SCHEDULING_GROUPS
from master.kube.schedulers.topologies import KUEUE_FLAVORS
from master.kube.schedulers.volcano import POD_GROUPS, QUEUES
from master.kube.schedulers.workloads import ADMISSION_CHECKS, WORKLOADS
from master.kube.service_accounts.token_review import TokenReviews
from master.kube.volumes import CLAIMS, STORAGE_CLASSES, VOLUMES
from master.kube.writing.writer import Writer, WriterMetrics
from master.object_errors import ObjectErrors
from master.settings import MasterSettings
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.kubernetes.device_config import DeviceConfig, config_map_scope
from master.sources.kubernetes.other_pods import OtherPods
from master.sources.kubernetes.pod_reader import PodReader
from master.sources.kubernetes.pods import PodParser
from master.sources.workers.sessions import MAX_NODES
from master.tree.engine import Clock
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.terms import Way
from topo.placement.capacity.node_room import NodeRoom
from topo.publish.node_features import node_of

GANG_RATE = 4
"""Writes for gangs have a rate of their own, this many times `--kube-qps` and its burst: people
wait for them, and a gang of 1,000 pods takes 3,000 writes."""

_Follow = Callable[..., Reflector[Any]]
"""Makes the reflector of a resource, from its scope and label."""
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
"""Names in logs and metrics where two collections have the same plural."""


def build_cluster(
    settings: MasterSettings,
    registry: prom.CollectorRegistry,
    clock: Clock,
    *,
    room: NodeRoom,
    errors: ObjectErrors,
) -> Cluster | None:
    """Return the parts, not opened yet; None for a master without Kubernetes.

    `room` is told of the pods that take no cards, `errors` of the objects that cannot be read.

    Reads the disk to find out whether this is a pod. Raises `BadInputError`.
    """
    config = settings.kube_config
    if config is None:
        return None
    qps, burst = settings.kube_qps, settings.kube_burst
    rate = RequestRate(qps, burst, clock).take
    gang_rate = RequestRate(GANG_RATE * qps, GANG_RATE * burst, clock).take
    metrics, written = KubeMetrics(registry), WriterMetrics(registry)
    client = KubeClient(config, rate=rate, observe=metrics.count_request, clock=clock)
    follow: _Follow = partial(Reflector, client, metrics=metrics, clock=clock, errors=errors)
    of = {name: follow(each, label=_LABELS.get(name, "")) for name, each in _FOLLOWED.items()}
    pods, ended_pods = _pods(follow, settings, room, errors)
    keys = AnnotationKeys(settings.domain)
    return Cluster(
        **of,
        jobs={
            each.name: follow(
                read_resource(each, keys),
                scope=Scope(keep=lambda job: bool(job.gang_id)),
                label=f"{each.name}s",
            )
            for each in SIZED_KINDS
        },
        client=client,
        metrics=metrics,
        pods=pods,
        ended_pods=ended_pods,
        requests=_requests(follow, settings),
        device_config=_device_config(follow, settings),
        group_trees=GroupTrees(of["scheduling_groups"], of["composite_groups"]),
        devices=DeviceCounts(
            *(of["slices"], of["device_classes"], of["claim_templates"], of["device_claims"])
        ),
        topologies=_topologies(follow, settings),
        node_features=_node_features(follow, settings),
        writer=Writer(client, written, rate=rate, clock=clock, errors=errors),
        gang_writer=Writer(client, written, rate=gang_rate, clock=clock, errors=errors),
        reviews=TokenReviews(client.call, registry, nodes=MAX_NODES, clock=clock),
    )


def cluster_capacity(
    cluster: Cluster | None, state: BookingState, errors: ObjectErrors
) -> ClusterCapacity | None:
    """Return what feeds the bookings with nodes and pods; None without Kubernetes."""
    if cluster is None:
        return None
    capacity = ClusterCapacity(state, cluster.nodes, cluster.pods, cluster.devices, errors=errors)
    if cluster.device_config is not None:
        DeviceConfig(cluster.device_config, capacity)
    return capacity


def _pods(
    follow: _Follow, settings: MasterSettings, room: NodeRoom, errors: ObjectErrors
) -> tuple[Reflector[ClusterPod], Reflector[EndedPod]]:
    """Return the reflectors of unfinished pods, and of pods of gangs that have ended for good."""
    way = Way.NATIVE if settings.placement == "native" else Way.NOMINATION
    keys = AnnotationKeys(settings.domain)
    policy = settings.policy
    parse = PodParser(policy, keys, way).parse
    reader = PodReader(parse=parse, policy=policy, keys=keys, errors=errors)
    pods = follow(
        parsed(PODS, reader.read),
        scope=Scope(query=UNFINISHED, keep=_is_followed, dropped=OtherPods(room)),
    )
    of_gangs = {**ENDED, "labelSelector": keys.group}
    ended_pods = follow(
        parsed(PODS, reader.read_ended),
        scope=Scope(query=of_gangs, keep=lambda pod: bool(pod.gang_id)),
        label="ended-pods",
    )
    return pods, ended_pods


def _is_followed(pod: ClusterPod) -> bool:
    """Return whether a pod is kept: it names cards, or may keep others out of a domain of nodes."""
    is_of_no_gang = not isinstance(pod, GangPod) or pod.is_chooser
    return pod.names_cards or (bool(pod.parts) and is_of_no_gang)


def _requests(follow: _Follow, settings: MasterSettings) -> Reflector[KnownRequest]:
    """Return the reflector of the ProvisioningRequests of our class."""
    ours = AnnotationKeys(settings.domain).provisioning_class
    return follow(
        parsed(PROVISIONING_REQUESTS, known_request),
        scope=Scope(keep=lambda known: known.class_name == ours),
    )


def _device_config(follow: _Follow, settings: MasterSettings) -> Reflector[ConfigMapObject] | None:
    name = settings.device_config
    return follow(CONFIG_MAPS, scope=config_map_scope(*name)) if name is not None else None


def _topologies(
    follow: _Follow, settings: MasterSettings
) -> Mapping[str, Mapping[Resource[Any], Reflector[Any]]]:
    """Return what is followed for each format of another scheduler that is switched on."""
    return {
        name: {
            each: follow(each, label=f"{name.partition('-')[0]}-{each.plural}")
            for each in FORMATS[name].followed
        }
        for name in FORMATS.keys() & set(settings.controllers)
    }


def _node_features(follow: _Follow, settings: MasterSettings) -> Reflector[NodeFeatureObject]:
    """Return the reflector of the NodeFeatures of this namespace that are named like ours."""
    return follow(
        NODE_FEATURES,
        scope=Scope(
            namespace=settings.pod_namespace,
            keep=lambda each: bool(node_of(each.metadata.name)),
        ),
    )
