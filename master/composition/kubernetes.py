"""The controllers and the admission webhook of a master in a cluster."""

import time

from master.admission.admission import Admission, NamedObjects, build_admission
from master.admission.tiers import KnownTiers
from master.availability import Availability
from master.cluster import Cluster, cluster_controllers
from master.composition.core import Core
from master.composition.nomination import NominationConfig, build_nomination
from master.composition.provisioning import ProvisioningParts, build_provisioning
from master.controllers.events import PRODUCT
from master.controllers.leaving_gangs import LeavingGangs
from master.controllers.nomination.controller import Nomination
from master.controllers.nomination.sources import Sources
from master.controllers.nomination.volumes import Volumes
from master.controllers.table import Controllers
from master.kube.schedulers.volcano_config import NOT_READ, Configured
from master.sources.kubernetes.capacity import ClusterCapacity
from topo.gangs.machine.settings import GangSettings
from topo.publish.event_series import Reporter


def controllers(
    core: Core,
    cluster: Cluster | None,
    availability: Availability,
    admission: Admission | None,
    *,
    capacity: ClusterCapacity | None,
) -> Controllers:
    """Return the controllers that are switched on; none without Kubernetes."""
    volcano = admission.reader if admission is not None else NOT_READ
    leaving = LeavingGangs(core.engine.clock)
    if cluster is not None:
        cluster.pods.subscribe(leaving.follow)
    parts = _provisioning(core, cluster, availability, capacity=capacity, leaving=leaving)
    return cluster_controllers(
        cluster,
        core.settings,
        core.engine,
        registry=core.registry,
        is_settled=lambda: availability.may_publish,
        nomination=lambda found: _nomination(
            core, found, availability, volcano=volcano, provisioning=parts, leaving=leaving
        ),
        provisioning=parts.controllers if parts is not None else {},
    )


def _provisioning(
    core: Core,
    cluster: Cluster | None,
    availability: Availability,
    *,
    capacity: ClusterCapacity | None,
    leaving: LeavingGangs,
) -> ProvisioningParts | None:
    """Return what answers requests for capacity; None where that is switched off."""
    if cluster is None:
        return None
    parts = build_provisioning(core, cluster, availability, leaving)
    if capacity is not None and parts is not None:
        capacity.hold_of = parts.reservations.hold_of
    return parts


def _nomination(
    core: Core,
    cluster: Cluster,
    availability: Availability,
    *,
    volcano: Configured,
    provisioning: ProvisioningParts | None,
    leaving: LeavingGangs,
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
            scheduling_groups=cluster.scheduling_groups,
            composite_groups=cluster.composite_groups,
            volumes=Volumes(
                claims=cluster.claims, volumes=cluster.volumes, classes=cluster.storage_classes
            ),
            devices=cluster.devices,
            is_answered=lambda: (
                all(each.is_answered for each in cluster.named)
                and (provisioning is None or provisioning.is_known())
            ),
            reservations=provisioning.reservations if provisioning is not None else None,
        ),
        writer=cluster.gang_writer,
        placements=core.placements,
        leaving=leaving,
        is_counted=lambda: availability.may_place,
        uncounted=availability.uncounted,
        domain=settings.domain,
        label_keys=settings.label_keys,
        settings=GangSettings(order=settings.gang_order, preempt_s=settings.preempt_after or None),
        max_hold_s=settings.hold_limits.hold_s,
        reporter=Reporter(PRODUCT, settings.pod_name or PRODUCT),
        registry=core.registry,
        volcano=volcano,
        queue_plugin=settings.queue_plugin,
        clock=core.engine.clock,
        server_now=cluster.client.server_clock.now,
        held=provisioning.held if provisioning is not None else (),
    )
    return build_nomination(config)


def admission(core: Core, cluster: Cluster | None, availability: Availability) -> Admission | None:
    """Return the webhook; None where jobs with groups are not handled."""
    if core.settings.placement == "off" or cluster is None:
        return None
    engine, replica = core.engine, core.replica
    tiers = KnownTiers(
        forest=lambda: None if availability.uncounted() else engine.snapshot.forest,
        hosts=core.placements.state.capacity.hosts,
        clock=core.clock,
    )
    return build_admission(
        core.settings,
        cluster.client,
        core.registry,
        tiers=tiers,
        named=NamedObjects(
            groups=cluster.scheduling_groups,
            trees=cluster.group_trees,
            devices=cluster.devices,
        ),
        acts=lambda: replica.role.acts,
        clock=time.monotonic,
    )
