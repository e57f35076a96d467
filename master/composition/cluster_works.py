"""The background work of a master's parts of Kubernetes."""

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

import structlog
from aiohttp import web

from master.cluster import Cluster
from master.controllers.names import (
    DEVICE_TAINTS,
    GANG_OBJECTS,
    HYPERNODES,
    KUEUE_WORKLOADS,
    NODE_FEATURES,
    NOMINATION,
    POD_GROUPS,
    PROVISIONING,
)
from master.controllers.nomination.controller import Nomination
from master.controllers.nomination.status.gate_timeout import GateTimeout
from master.controllers.nomination.status.no_fit_audit import NoFitAudit
from master.controllers.topologies import FORMATS
from master.kube.reflector import Reflector
from master.service import Service
from master.sources.kubernetes.node_source import NodeSource
from master.sources.kubernetes.nodes import listed_node
from topo.gangs.annotation_keys import AnnotationKeys
from topo.kit.tasks import Work


def _of_topologies(name: str, cluster: Cluster) -> tuple[Reflector[Any], ...]:
    return tuple(cluster.topologies[name].values())


_FOLLOWED: Mapping[str, Callable[[Cluster], tuple[Reflector[Any], ...]]] = {
    HYPERNODES: lambda cluster: (cluster.hypernodes,),
    NOMINATION: lambda cluster: (
        cluster.pod_groups,
        cluster.queues,
        cluster.quotas,
        cluster.ended_pods,
        *cluster.jobs.values(),
        *cluster.named,
    ),
    GANG_OBJECTS: lambda cluster: (cluster.gangs,),
    POD_GROUPS: lambda cluster: (cluster.scheduling_groups, cluster.composite_groups),
    DEVICE_TAINTS: lambda cluster: (cluster.slices, cluster.taint_rules),
    **{name: partial(_of_topologies, name) for name in FORMATS},
    NODE_FEATURES: lambda cluster: (cluster.node_features,),
    PROVISIONING: lambda cluster: (
        *(cluster.requests, cluster.templates, cluster.workloads, cluster.quotas),
    ),
    KUEUE_WORKLOADS: lambda cluster: (*cluster.of_kueue, cluster.quotas),
}
"""What is followed for a controller alone, where it is switched on."""
_log = structlog.get_logger(__name__)


def cluster_works(service: Service) -> Mapping[str, Work]:
    """Return the background work. Reflectors run in followers, too: they may lead in a moment."""
    cluster = service.cluster
    if cluster is None:
        return {}
    works: dict[str, Work] = {
        f"kubernetes-{reflector.name}": reflector.run for reflector in cluster.reflectors
    }
    cluster.writer.may_write = lambda: service.replica.role.acts
    works["kubernetes-writer"] = cluster.writer.run
    for name in _FOLLOWED.keys() & service.controllers.running:
        works |= {
            f"kubernetes-{reflector.name}": reflector.run for reflector in _FOLLOWED[name](cluster)
        }
    if service.controllers.nomination is not None:
        unattended = _unattended(service, cluster, service.controllers.nomination)
        cluster.gang_writer.may_write = lambda: service.replica.role.acts or unattended.is_over
        works["unattended-gates"] = unattended.run
        denied = NoFitAudit(
            service.controllers.nomination.view.without_room,
            cluster.pods,
            service.placements.state,
            service.registry,
        )
        works["gang-recount"] = partial(service.replica.run, denied.run)
        cluster.gang_writer.follow(cluster.nodes)
        cluster.gang_writer.follow(cluster.pods)
        works["kubernetes-gang-writer"] = cluster.gang_writer.run
    for name, work in service.controllers.works.items():
        works[name] = partial(service.replica.run, work)
    if service.admission is not None:
        works["admission-certificate"] = service.admission.keeper.run
        works["admission-tiers"] = service.admission.tiers.run
        works["volcano-configuration"] = service.admission.reader.run
    if (extender := service.extender) is not None:
        works["kubernetes-gpu-quota"] = extender.config_map.run
        works[f"kubernetes-{cluster.quotas.name}"] = cluster.quotas.run
        works["extender-plans"] = partial(service.replica.run, extender.plans.run)
    if cluster.device_config is not None:
        works["kubernetes-device-config"] = cluster.device_config.run
    if (capacity := service.cluster_capacity) is not None:
        settings = service.settings
        read = partial(listed_node, labels=settings.labels, policy=settings.policy)
        nodes = NodeSource(
            cluster.nodes, service.engine, capacity, read, errors=service.object_errors
        )
        works["cluster-capacity"] = capacity.run
        works["cluster-nodes"] = partial(service.replica.run, nodes.run)
    return works


def _unattended(service: Service, cluster: Cluster, nomination: Nomination) -> GateTimeout:
    replicas = service.replicas

    def is_attended() -> bool:
        """The leader judges itself; other masters see only whether somebody leads."""
        if service.replica.role.acts:
            return nomination.is_placing
        return replicas is not None and replicas.lease.somebody_leads()

    return GateTimeout(
        limit_s=service.settings.gate_timeout,
        is_attended=is_attended,
        is_heard=lambda: cluster.pods.synced and cluster.pods.trouble is None,
        pods=cluster.pods,
        writer=cluster.gang_writer,
        status_writer=nomination.status.writer,
        keys=AnnotationKeys(service.settings.domain),
        registry=service.registry,
        clock=service.engine.clock,
    )


async def open_client(service: Service, _app: web.Application) -> AsyncIterator[None]:
    """Open the client while the application lives. Raises `BadInputError`."""
    cluster = service.cluster
    if cluster is None:
        yield
        return
    await cluster.client.open()
    _log.info("Kubernetes is asked", server=cluster.client.server)
    try:
        yield
    finally:
        await cluster.reviews.close()
        await cluster.client.close()
