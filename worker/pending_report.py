"""Between probing and reporting: the latest facts, and how many readings the master is owed.

The master judges by readings (two bad ones down, three good ones up), so a change is followed by
quick readings of the probe that saw it, and each of them is told. Nothing queues: what is owed is
a number, and facts that were overtaken before they were sent are never sent.
"""

import asyncio

from topo.model.machine import NodeFacts
from worker.session import differ_in_substance

CONFIRMATIONS = 2
"""Equal readings told after the one that brought the change: three in all."""


class PendingReport:
    """Probes put facts down, the reporter takes them up."""

    def __init__(self) -> None:
        self.facts: NodeFacts | None = None
        self._reports_due = 0
        self._confirming: dict[str, int] = {}
        self._wake = asyncio.Event()

    def update(self, probe: str, facts: NodeFacts) -> bool:
        """One reading's facts; whether the probe should read again soon."""
        before, self.facts = self.facts, facts
        if facts != before:
            self._reports_due = 1
            if before is not None and differ_in_substance(before, facts):
                self._confirming[probe] = CONFIRMATIONS
            self._wake.set()
        elif self._confirming.get(probe, 0) > 0:
            self._confirming[probe] -= 1
            self._reports_due = min(self._reports_due + 1, CONFIRMATIONS + 1)
            self._wake.set()
        return self._confirming.get(probe, 0) > 0

    def request_full(self) -> None:
        """The master wants to hear the facts once more."""
        self._reports_due = max(self._reports_due, 1)
        self._wake.set()

    def acknowledged(self, facts: NodeFacts) -> None:
        """One report of these facts is done with; facts put down meanwhile are still owed."""
        self._reports_due = max(self._reports_due - 1, 0 if facts is self.facts else 1)
        if self._reports_due == 0:
            self._wake.clear()

    async def wait(self, timeout_s: float | None) -> None:
        """Returns when a report is owed, or after the time. Facts are there then."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return
