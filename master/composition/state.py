"""Where the state is kept, when it is saved, and what is written beside it."""

from master.booking.booking_log import BookingLog
from master.booking.placements import Placements
from master.cluster import Cluster
from master.file_warnings import FileWarnings
from master.metrics import ServiceMetrics
from master.replicas.replicas import Replicas
from master.replicas.state_copy import StateCopy
from master.role import Replica
from master.settings import MasterSettings
from master.state.config_maps import ConfigMapStore
from master.state.saving import StateSaver, StateStore
from master.state.state_file import StateFileStore
from master.tree.engine import Engine
from master.tree.readiness import Readiness


def booking_log(settings: MasterSettings, placements: Placements) -> BookingLog | None:
    """What takes down every booking, where the settings name a file for it."""
    if settings.booking_log is None:
        return None
    log = BookingLog(settings.booking_log, placements.state.header)
    placements.state.record = log.record
    return log


def state_store(
    settings: MasterSettings,
    cluster: Cluster | None,
    replica: Replica,
    metrics: ServiceMetrics,
) -> StateStore | None:
    """Where the state is kept; None where the settings name no place."""
    if settings.state_file is not None:
        return StateFileStore(settings.state_file)
    if not settings.state_config_maps or cluster is None:
        return None
    return ConfigMapStore(
        cluster.client,
        settings.pod_namespace,
        settings.domain,
        may_write=lambda: replica.role.acts,
        on_late=metrics.saves.labels("late").inc,
    )


def state_saver(
    store: StateStore | None,
    interval_s: float,
    *,
    engine: Engine,
    readiness: Readiness,
    placements: Placements,
    metrics: ServiceMetrics,
) -> StateSaver | None:
    """What saves into the store."""
    if store is None:
        return None
    return StateSaver(
        store=store,
        interval_s=interval_s,
        engine=engine,
        readiness=readiness,
        bookings=placements.state,
        metrics=metrics,
        clock=engine.clock,
    )


def state_copy(
    settings: MasterSettings,
    saver: StateSaver | None,
    replicas: Replicas | None,
    warnings: FileWarnings,
) -> StateCopy | None:
    """The copy on this master's own disk, where the settings name a file for it."""
    if settings.state_copy_file is None or saver is None or replicas is None:
        return None
    return StateCopy(
        settings.state_copy_file,
        saver,
        follower=replicas.follower,
        replica=replicas.replica,
        warnings=warnings,
    )
