"""The controllers of a master in a cluster."""

from collections.abc import Callable, Mapping
from functools import cache, partial

from master.availability import Availability
from master.booking.ahead import AheadBudget
from master.cluster import Cluster
from master.composition.core import Core
from master.composition.nomination import NominationConfig, build_nomination
from master.composition.provisioning import ProvisioningParts, build_provisioning
from master.controllers.events import PRODUCT, service_object
from master.controllers.leaving_gangs import LeavingGangs
from master.controllers.nomination.controller import Nomination
from master.controllers.nomination.sources import Sources
from master.controllers.nomination.volumes import Volumes
from master.controllers.retention_grace import RetentionGrace
from master.controllers.table import Controllers, ControllerView, build_controllers
from master.kube.schedulers.volcano_config import Configured
from master.sources.kubernetes.capacity import ClusterCapacity
from master.sources.kubernetes.consumed_requests import ConsumedRequests
from topo.gangs.machine.settings import GangSettings
from topo.kit.threads import MadeOnce
from topo.model.forest import Forest
from topo.model.ids import NodeName
from topo.publish.event_series import Reporter
from topo.publish.node_labels import Labels, node_labels


def cluster_controllers(
    core: Core,
    cluster: Cluster | None,
    availability: Availability,
    capacity: ClusterCapacity | None,
    *,
    volcano: Configured,
    ahead: AheadBudget,
) -> Controllers:
    """Return the controllers that are switched on and follow the engine; none without Kubernetes.

    `volcano` is what is known of the configuration of Volcano's scheduler, `ahead` the budget of
    what is kept for pods that are not there yet.
    """
    if cluster is None:
        return Controllers()
    leaving = LeavingGangs(core.engine.clock)
    cluster.pods.subscribe(leaving.follow)
    provisioning = build_provisioning(core, cluster, availability, leaving=leaving, ahead=ahead)
    if capacity is not None and provisioning is not None:
        capacity.add_hold_source(
            ConsumedRequests(cluster.pods, provisioning.reservations, capacity.recount)
        )

    @cache
    def nomination() -> Nomination:
        """Build the controller of gangs when it is asked for first."""
        return _nomination(
            core,
            cluster,
            availability,
            volcano=volcano,
            provisioning=provisioning,
            leaving=leaving,
            ahead=ahead,
        )

    view = _view(core, cluster, availability, nomination=nomination, provisioning=provisioning)
    controllers = build_controllers(view, core.settings.controllers)
    core.engine.on_published.append(controllers.on_forest)
    return controllers


def _view(
    core: Core,
    cluster: Cluster,
    availability: Availability,
    *,
    nomination: Callable[[], Nomination],
    provisioning: ProvisioningParts | None,
) -> ControllerView:
    """Return what controllers see of this master."""
    settings, engine = core.settings, core.engine
    forget_at_s = engine.clock() + settings.discovery.forget_s

    def labels_of(forest: Forest) -> Mapping[NodeName, Labels]:
        return node_labels(forest, settings.label_keys, engine.beside(forest))

    return ControllerView(
        nodes=cluster.nodes,
        hypernodes=cluster.hypernodes,
        writer=cluster.writer,
        forest=lambda: engine.snapshot.forest,
        snapshot=lambda: engine.snapshot,
        facts=engine.facts_of,
        is_settled=lambda: cluster.nodes.synced and availability.may_publish,
        grace=RetentionGrace(cluster.nodes, forget_at_s, engine.clock),
        domain=settings.domain,
        label_keys=settings.label_keys,
        beside=engine.beside,
        node_labels=MadeOnce(labels_of).of,
        reporter=Reporter(PRODUCT, settings.pod_name or PRODUCT),
        about_service=partial(
            service_object,
            cluster.client,
            settings.pod_namespace,
            settings.pod_name,
        ),
        registry=core.registry,
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
        nomination=nomination,
        errors=core.object_errors,
        provisioning=provisioning.controllers if provisioning is not None else {},
    )


def _nomination(
    core: Core,
    cluster: Cluster,
    availability: Availability,
    *,
    volcano: Configured,
    provisioning: ProvisioningParts | None,
    leaving: LeavingGangs,
    ahead: AheadBudget,
) -> Nomination:
    settings = core.settings
    config = NominationConfig(
        sources=Sources(
            nodes=cluster.nodes,
            pods=cluster.pods,
            pod_groups=cluster.pod_groups,
            queues=cluster.queues,
            quotas=cluster.quotas,
            ended_pods=cluster.ended_pods,
            jobs=tuple(cluster.jobs.values()),
            scheduling_groups=cluster.scheduling_groups,
            composite_groups=cluster.composite_groups,
            volumes=Volumes(
                claims=cluster.claims, volumes=cluster.volumes, classes=cluster.storage_classes
            ),
            devices=cluster.devices,
            is_answered=lambda: (
                all(
                    each.is_answered
                    for each in (cluster.quotas, *cluster.named, *cluster.jobs.values())
                )
                and (provisioning is None or provisioning.is_known())
            ),
            reservations=provisioning.reservations if provisioning is not None else None,
        ),
        writer=cluster.gang_writer,
        placements=core.placements,
        ahead=ahead,
        leaving=leaving,
        is_counted=lambda: availability.may_place,
        uncounted=availability.uncounted,
        domain=settings.domain,
        label_keys=settings.label_keys,
        settings=GangSettings(
            order=settings.gang_order,
            preempt_s=settings.preempt_after or None,
            gate_s=settings.gate_timeout,
        ),
        max_hold_s=settings.hold_limits.hold_s,
        reporter=Reporter(PRODUCT, settings.pod_name or PRODUCT),
        registry=core.registry,
        volcano=volcano,
        queue_plugin=settings.queue_plugin,
        clock=core.engine.clock,
        server_now=cluster.client.server_clock.now,
        held=provisioning.held if provisioning is not None else (),
        errors=core.object_errors,
    )
    return build_nomination(config)
