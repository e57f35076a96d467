"""Placement and holds of one master: the owner of the bookings, the planner, the recounts."""

from master.booking.capacity_metrics import GpuTotals
from master.booking.feed import BookingFeed
from master.booking.fragmentation_report import FragmentationReporter
from master.booking.holds import HoldService
from master.booking.maintenance import BookingMaintenance
from master.booking.metrics import PlacementMetrics
from master.booking.planner import Planner
from master.booking.state import BookingState
from master.tree.engine import Clock
from topo.placement.booking.holds import Limits
from topo.placement.job.policy import Policy


class Placements:
    """The parts around one `BookingState`. Only the event loop may touch them."""

    def __init__(
        self, policy: Policy, limits: Limits, metrics: PlacementMetrics, clock: Clock
    ) -> None:
        self.state = BookingState(policy, limits, metrics, clock)
        self.planner = Planner(self.state)
        self.feed = BookingFeed()
        self.totals = GpuTotals(self.state)
        reporter = FragmentationReporter(self.state, metrics)
        self.holds = HoldService(self.state, self.planner, reporter.add_job)
        self.maintenance = BookingMaintenance(self.state, reporter)
