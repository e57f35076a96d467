"""The reports: what is owed is sent, what is lost is said again in full, the rest is patience."""

from collections.abc import Callable

import structlog
from tenacity import AsyncRetrying, retry_if_exception_type

from topo.kit.backoff import full_jitter, retry_after_or
from topo.model.machine import NodeFacts
from worker.metrics import Metrics
from worker.pending_report import Desk
from worker.session import Session
from worker.transport import FIXES, Master, ReportLostError, Trouble

RETRY_BASE_S, RETRY_CEILING_S = 0.25, 8.0
"""The ceiling keeps the promise that a restarted master hears of every node within ten seconds."""

_log = structlog.get_logger(__name__)


class Reporting:
    """One conversation with the master, for as long as the process lives."""

    def __init__(self, desk: Desk, session: Session, master: Master, metrics: Metrics) -> None:
        self._desk = desk
        self._session = session
        self._master = master
        self._metrics = metrics
        self._trouble: Trouble | None = None
        self._met = False
        self._silent: Callable[[], bool] = lambda: False

    def fall_silent_when(self, silent: Callable[[], bool]) -> None:
        """Replays only: nothing is sent while the function says so."""
        self._silent = silent

    async def run(self) -> None:
        """Sends until cancelled. Always the latest facts; one report at a time."""
        while True:
            await self._desk.wait(self._session.beat_s if self._met else None)
            retrying = AsyncRetrying(
                wait=retry_after_or(full_jitter(RETRY_BASE_S, RETRY_CEILING_S)),
                retry=retry_if_exception_type(ReportLostError),
                reraise=True,
            )
            await retrying(self._say)

    async def _say(self) -> None:
        facts = self._desk.facts
        if facts is None:
            return
        if self._silent():
            self._desk.paid(facts)
            return
        report = self._session.report(facts)
        try:
            answer = await self._master.send(report)
        except ReportLostError as lost:
            self._session.lost()
            self._metrics.lost(lost.trouble)
            self._complain(lost)
            raise
        self._session.accepted(facts, answer)
        self._metrics.reported(report.kind, facts)
        self._rejoice(facts)
        self._desk.paid(facts)
        if report.kind != "full" and not self._session.in_step:
            self._desk.owe()

    def _complain(self, lost: ReportLostError) -> None:
        """A line when the kind of trouble changes, not for every try."""
        if lost.trouble is not self._trouble:
            _log.warning(
                "reports do not arrive",
                reason=lost.trouble.value,
                detail=lost.detail,
                fix=FIXES[lost.trouble],
            )
        self._trouble = lost.trouble

    def _rejoice(self, facts: NodeFacts) -> None:
        if not self._met or self._trouble is not None:
            _log.info("reports arrive", gpus=len(facts.gpus), ports=len(facts.ports))
        self._met, self._trouble = True, None
