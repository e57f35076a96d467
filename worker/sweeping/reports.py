"""Tells the master of each round of sweeps and, between them, that this host sweeps still.

The master answers which dumps it lacks: one that restarted, or took over, has none.
"""

import asyncio

from worker.metrics import Metrics
from worker.reporting import Outages, retrying
from worker.session import MAX_BEAT_S, MIN_BEAT_S
from worker.sweeping.sweeper import FabricSweeper
from worker.transport import MasterConnection, ReportLostError


class SweepReports:
    """One conversation with the master, for as long as the process lives."""

    def __init__(self, sweeper: FabricSweeper, master: MasterConnection, metrics: Metrics) -> None:
        self._sweeper = sweeper
        self._master = master
        self._metrics = metrics
        self._outages = Outages(metrics)
        self._beat_s = 10.0

    async def run(self) -> None:
        """Report after each round, and every beat, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._beat_s):
                    await self._sweeper.ended.wait()
            except TimeoutError:
                pass
            self._sweeper.ended.clear()
            await retrying(self._beat_s)(self._send)

    async def _send(self) -> None:
        report = self._sweeper.report()
        try:
            answer = await self._master.send_sweeps(report)
            self._metrics.delivered("beat")
            for port in answer.want:
                if (dump := self._sweeper.dump(port)) is not None:
                    await self._master.send_dump(port, dump.digest, dump.packed)
                    self._metrics.delivered("dump")
        except ReportLostError as lost:
            self._outages.lost(lost)
            raise
        self._beat_s = min(max(answer.beat_s, MIN_BEAT_S), MAX_BEAT_S)
        self._outages.delivered(dumps=len(report.ports))
