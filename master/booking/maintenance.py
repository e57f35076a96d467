"""Periodic work on bookings: expiry, recounts, gauges."""

import asyncio

import structlog

from master.booking.fragmentation_report import FragmentationReport, FragmentationReporter
from master.booking.state import BookingState
from topo.placement.capacity.forest_hosts import host_differences

TICK_S = 0.25
"""How long after its deadline an expired hold may stay in sight of those who only look."""
REPORT_S = 15.0
"""The gauges of free groups are at most this old, which is how often Prometheus usually asks."""
RECOUNT_S = 60.0
"""How often the free capacity is counted from scratch: 0.2 s of a thread at 10,000 nodes."""
_LOGGED_DIFFERENCES = 20

_log = structlog.get_logger(__name__)


class BookingMaintenance:
    """Ends holds in time, recounts from nothing now and then, and renews the report.

    Its timer is the only one that ends holds.
    """

    def __init__(self, state: BookingState, reporter: FragmentationReporter) -> None:
        self._state, self._reporter = state, reporter
        self._absent: set[str] = set()

    async def run(self, recount_s: float = RECOUNT_S) -> None:
        """Run until cancelled; recount every `recount_s` seconds."""
        clock = self._state.clock
        recounted_s = reported_s = clock()
        while True:
            await asyncio.sleep(TICK_S)
            self._state.advance()
            now_s = clock()
            if now_s - recounted_s >= recount_s:
                recounted_s = now_s
                await self.recount()
            if now_s - reported_s >= REPORT_S:
                reported_s = now_s
                await self.report()

    async def report(self) -> FragmentationReport:
        """Return the report on the capacity now."""
        return await self._reporter.report(self._state.generation)

    async def recount(self) -> None:
        """Recount everything from nothing; log and correct what differs.

        Hosts are compared in a thread, on a copy: that is most of the work. Raises
        `BrokenInvariantError` if bookings contradict themselves, which ends the process.
        """
        state = self._state
        state.settle()
        moved = await asyncio.to_thread(
            host_differences, state.capacity.copy(), state.forest, dict(state.cluster)
        )
        found = state.recount(moved)
        state.metrics.recounted(len(found))
        for difference in found[:_LOGGED_DIFFERENCES]:
            _log.warning(
                "capacity was counted wrongly",
                node=difference.node,
                kept=difference.kept,
                counted=difference.counted,
                differences=len(found),
            )
        self._check_reserves()

    def _check_reserves(self) -> None:
        """Log, once each, the reserves that name a group which is not there."""
        layout = self._state.capacity.layout()
        paths = [path for path, _ in self._state.policy.reserves]
        absent = {"/".join(path) for path in paths if layout.range_of(path) is None}
        for path in sorted(absent - self._absent):
            _log.warning("a reserve names no group of the tree", path=path, fix="--reserve-groups")
        self._absent = absent
