"""Where the state is kept, when it is saved, and what is written beside it."""

from master.booking.booking_log import BookingLog
from master.cluster import Cluster
from master.composition.core import Core
from master.replicas.replicas import Replicas
from master.replicas.state_copy import StateCopy
from master.state.config_maps import ConfigMapStore
from master.state.saving import StateSaver, StateStore
from master.state.state_file import StateFileStore


def booking_log(core: Core) -> BookingLog | None:
    """Return the log of bookings, if the settings name a file for it."""
    path, bookings = core.settings.booking_log, core.placements.state
    if path is None:
        return None
    log = BookingLog(path, bookings.header)
    bookings.record = log.record
    return log


def state_saver(core: Core, cluster: Cluster | None) -> StateSaver | None:
    """Return what saves the state; None where the settings name no place for it."""
    store = _store(core, cluster)
    if store is None:
        return None
    return StateSaver(
        store=store,
        interval_s=core.settings.state_save_interval,
        engine=core.engine,
        readiness=core.readiness,
        bookings=core.placements.state,
        metrics=core.metrics,
        clock=core.engine.clock,
    )


def _store(core: Core, cluster: Cluster | None) -> StateStore | None:
    settings, replica = core.settings, core.replica
    if settings.kept_file is not None:
        return StateFileStore(settings.kept_file)
    if not settings.state_config_maps or cluster is None:
        return None
    return ConfigMapStore(
        cluster.client,
        settings.pod_namespace,
        settings.domain,
        may_write=lambda: replica.role.acts,
        on_late=core.metrics.saves.labels("late").inc,
    )


def state_copy(core: Core, saver: StateSaver | None, replicas: Replicas | None) -> StateCopy | None:
    """Return the copy on this master's own disk, if the settings name a file for it."""
    path = core.settings.copy_file
    if path is None or saver is None or replicas is None:
        return None
    return StateCopy(
        path,
        saver,
        follower=replicas.follower,
        replica=replicas.replica,
        warnings=core.file_warnings,
    )
