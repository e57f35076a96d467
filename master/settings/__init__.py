"""Settings of topo-master: the vendor's flags and environment, plus ours."""

from typing import ClassVar

from master.settings.booking import BookingSettings
from master.settings.extender import ExtenderSettings
from master.settings.finding import FindingSettings
from master.settings.removed import REMOVED
from master.settings.replicas import ReplicaSettings
from topo.kit.logs import LogSettings


class MasterSettings(
    ReplicaSettings, ExtenderSettings, BookingSettings, FindingSettings, LogSettings
):
    """Every field is a flag and a `TOPO_…` variable; docs/master.md is the same list."""

    removed: ClassVar = REMOVED
