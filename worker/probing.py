"""The reading of probes: one loop per probe, each at its own interval."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence

import structlog

from topo.kit.tasks import Work
from topo.model.machine import NodeFacts, ProbeHealth, ProbeState
from worker.host_facts import HostFacts
from worker.metrics import Metrics
from worker.pending_report import PendingReport
from worker.probes.probe import Probe, Reading, read_in_time

_log = structlog.get_logger(__name__)

QUICK_S = 0.2
"""Pause between the readings that confirm a change: three of them take less than a second."""
ABSENT_S = 60.0
"""Pause between looks for a source that this host does not have: drivers are rarely installed."""


class ProbeLoops:
    """One task per probe: read, add to the host's facts, update the pending report, sleep.

    A probe that hangs delays its own task only. Stand-ins sleep until they are needed. A replay
    gives `with_faults`, which changes the facts before they are reported.
    """

    def __init__(
        self,
        probes: Sequence[Probe],
        host: HostFacts,
        pending: PendingReport,
        *,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        with_faults: Callable[[NodeFacts], NodeFacts] = lambda facts: facts,
    ) -> None:
        self._probes = probes
        self._host = host
        self._pending = pending
        self._metrics = metrics
        self._clock = clock
        self._with_faults = with_faults
        self._states: dict[str, ProbeState] = {}
        self._pauses: dict[str, float] = {}
        self._reading_came = asyncio.Event()
        self._last_reading_s = clock()

    def works(self) -> dict[str, Work]:
        """Return the background work, by name."""
        return {f"probe {probe.name}": self._loop(probe) for probe in self._probes}

    def close(self) -> None:
        """Close what probes keep between readings."""
        for probe in self._probes:
            probe.close()

    @property
    def age_s(self) -> float:
        """Return the seconds since the last reading of any probe ended."""
        return self._clock() - self._last_reading_s

    @property
    def reading_due_within_s(self) -> float:
        """Return the seconds until some probe must have been read: the least pause plus timeout.

        Infinite where nothing is probed.
        """
        return min(
            (
                self._pauses.get(probe.name, 0.0) + probe.timeout_s
                for probe in self._probes
                if self._host.needed(probe.name)
            ),
            default=math.inf,
        )

    def _loop(self, probe: Probe) -> Work:
        async def forever() -> None:
            while True:
                await self._wait_until_needed(probe)
                reading = await self._read(probe)
                self._pauses[probe.name] = self._pause_s(probe, reading)
                await asyncio.sleep(self._pauses[probe.name])

        return forever

    async def _wait_until_needed(self, probe: Probe) -> None:
        while not self._host.needed(probe.name):
            await self._reading_came.wait()

    async def _read(self, probe: Probe) -> Reading:
        begun_s = self._clock()
        reading = await read_in_time(probe)
        health = self._host.add(probe.name, reading)
        self._last_reading_s = self._clock()
        self._metrics.read(health, self._last_reading_s - begun_s)
        self._log_change(health)
        self._reading_came.set()
        self._reading_came = asyncio.Event()
        return reading

    def _pause_s(self, probe: Probe, reading: Reading) -> float:
        """Update the report if every probe was read. Return the pause until the next reading."""
        if self._host.settled():
            facts = self._with_faults(self._host.facts())
            if self._pending.update(probe.name, facts):
                return QUICK_S
        if reading.state is ProbeState.ABSENT:
            return max(ABSENT_S, probe.interval_s)
        return probe.interval_s

    def _log_change(self, health: ProbeHealth) -> None:
        """Log a change of the probe's state."""
        before = self._states.get(health.probe)
        self._states[health.probe] = health.state
        if health.state is before:
            return
        bad = health.state in {ProbeState.FAILED, ProbeState.TIMED_OUT}
        level = _log.warning if bad else _log.info
        level("probe changed", probe=health.probe, state=health.state.value, detail=health.detail)
