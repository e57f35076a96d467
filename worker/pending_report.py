"""The report that is still to be sent: the latest facts, and how many times they are reported.

The master judges by readings (two bad ones down, three good ones up). So after a change the probe
that saw it is read again quickly, and each of these readings is reported. Nothing is queued: facts
that changed again before they were sent are never sent.
"""

import asyncio

from topo.model.machine import NodeFacts
from worker.session import differ_in_substance

CONFIRMATIONS = 2
"""Equal readings reported after the one that brought the change: three in all."""


class PendingReport:
    """Written by the probes, read by the report loop."""

    def __init__(self) -> None:
        self.facts: NodeFacts | None = None
        self._reports_due = 0
        self._confirming: dict[str, int] = {}
        self._due = asyncio.Event()

    def update(self, probe: str, facts: NodeFacts) -> bool:
        """Take the facts after one reading of `probe`; whether it should be read again soon."""
        before, self.facts = self.facts, facts
        if facts != before:
            self._reports_due = 1
            if before is not None and differ_in_substance(before, facts):
                self._confirming[probe] = CONFIRMATIONS
            self._due.set()
        elif self._confirming.get(probe, 0) > 0:
            self._confirming[probe] -= 1
            self._reports_due = min(self._reports_due + 1, CONFIRMATIONS + 1)
            self._due.set()
        return self._confirming.get(probe, 0) > 0

    def request_full(self) -> None:
        """The master asks for the facts once more."""
        self._reports_due = max(self._reports_due, 1)
        self._due.set()

    def acknowledged(self, facts: NodeFacts) -> None:
        """One report of these facts was sent. Facts that came meanwhile are still to be sent."""
        self._reports_due = max(self._reports_due - 1, 0 if facts is self.facts else 1)
        if self._reports_due == 0:
            self._due.clear()

    async def wait(self, timeout_s: float) -> bool:
        """Return whether a report is due; waits for one until the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._due.wait()
        except TimeoutError:
            return False
