"""The admission webhook of a master in a cluster."""

import time

from master.admission.admission import Admission, NamedObjects, build_admission
from master.admission.native_pods import NativePods
from master.admission.tiers import KnownTiers
from master.availability import Availability
from master.cluster import Cluster
from master.composition.core import Core


def admission_webhook(
    core: Core, cluster: Cluster | None, availability: Availability
) -> Admission | None:
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
            native=NativePods(cluster.pods),
        ),
        acts=lambda: replica.role.acts,
        clock=time.monotonic,
    )
