"""The fragmentation report: made in a thread, on a copy, once per version of the capacity."""

import asyncio
from collections import deque
from dataclasses import dataclass, replace

from master.booking.metrics import PlacementMetrics
from master.booking.state import BookingState
from topo.placement.fragmentation import DEFAULT_MIX, Fragmentation, fragmentation, mix_of
from topo.placement.job.request import Request

JOBS_SEEN = 1000
JOBS_NEEDED = 20
"""How many held jobs make the observed mix, and how few are too few for one."""


@dataclass(frozen=True, slots=True)
class FragmentationReport:
    """A report, with the version of the capacity that it describes.

    `observed`: its job mix is that of the jobs that were held, not the assumed one.
    """

    version: int
    generation: int
    observed: bool
    report: Fragmentation


class FragmentationReporter:
    """Makes reports on a copy in a thread, and keeps the last report and the jobs of the mix."""

    def __init__(self, state: BookingState, metrics: PlacementMetrics) -> None:
        self._state = state
        self._metrics = metrics
        self._jobs: deque[Request] = deque(maxlen=JOBS_SEEN)
        self._last: FragmentationReport | None = None
        self._lock = asyncio.Lock()
        self._begun = 0

    def add_job(self, job: Request) -> None:
        """Add a job that was given a hold to the mix that reports assume."""
        self._jobs.append(job)

    async def report(self, generation: int) -> FragmentationReport:
        """Return the report on the capacity now; `generation` is that of its forest."""
        begun = self._begun
        async with self._lock:
            last = self._last
            if last is not None and self._begun > begun:
                return last  # begun after this was asked, so it is as new as was asked for
            capacity = self._state.capacity
            if last is not None and last.version == capacity.version:
                if last.generation != generation:
                    last = self._last = replace(last, generation=generation)
                return last
            self._begun += 1
            observed = len(self._jobs) >= JOBS_NEEDED
            mix = mix_of(self._jobs) if observed else DEFAULT_MIX
            copy = capacity.copy()
            report = await asyncio.to_thread(fragmentation, copy, mix=mix)
            self._last = FragmentationReport(copy.version, generation, observed, report)
            self._metrics.reported(report)
            return self._last
