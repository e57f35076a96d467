"""The controllers and the admission webhook of a master in a cluster."""

import time

from master.admission.admission import Admission, build_admission
from master.admission.tiers import KnownTiers
from master.availability import Availability
from master.cluster import Cluster, cluster_controllers
from master.composition.core import Core
from master.controllers.table import Controllers


def controllers(core: Core, cluster: Cluster | None, availability: Availability) -> Controllers:
    """Return the controllers that are switched on; none without Kubernetes."""
    return cluster_controllers(
        cluster,
        core.settings,
        core.engine,
        placements=core.placements,
        registry=core.registry,
        is_settled=lambda: availability.may_publish,
        is_counted=lambda: availability.may_place,
    )


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
        acts=lambda: replica.role.acts,
        clock=time.monotonic,
    )


def join(controllers: Controllers, admission: Admission | None, availability: Availability) -> None:
    """Give the controller of gangs the webhook's knowledge of Volcano."""
    nomination = controllers.nomination
    if nomination is None:
        return
    if admission is not None:
        nomination.volcano = admission.reader
    nomination.uncounted = availability.uncounted
