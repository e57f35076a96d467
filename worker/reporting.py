"""Sending of reports: the latest facts; after a failure again and in full, with backoff."""

from collections.abc import Callable

import structlog
from tenacity import AsyncRetrying, retry_if_exception_type

from topo.kit.backoff import full_jitter, retry_after_or
from topo.model.machine import LinkCount
from topo.model.wire import RETRY_CEILING_S
from worker.metrics import Metrics
from worker.pending_report import PendingReport
from worker.session import Session
from worker.transport import MasterConnection, ReportLostError, Trouble

RETRY_BASE_S = 0.25

_log = structlog.get_logger(__name__)
_SILENCE_S = 1.0
"""How often a silenced node checks whether it may report, before the master has set a beat."""


def retrying(beat_s: float) -> AsyncRetrying:
    """Retry until it succeeds, a beat apart at most: a short outage costs one beat at most."""
    ceiling_s = min(RETRY_CEILING_S, beat_s)
    return AsyncRetrying(
        wait=retry_after_or(full_jitter(RETRY_BASE_S, ceiling_s), RETRY_CEILING_S),
        retry=retry_if_exception_type(ReportLostError),
        reraise=True,
    )


class Outages:
    """Logs when the kind of trouble changes, and when reports arrive again; not every try."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._trouble: Trouble | None = None
        self._delivered = False

    def lost(self, lost: ReportLostError) -> None:
        """Note a report that may not have arrived."""
        self._metrics.lost(lost.trouble)
        if lost.trouble is not self._trouble:
            _log.warning(
                "reports do not arrive",
                reason=lost.trouble.value,
                detail=lost.detail,
                fix=lost.fix,
            )
        self._trouble = lost.trouble

    def delivered(self, **what: int) -> None:
        """Note a report that arrived; `what` says in numbers what it was about."""
        if not self._delivered or self._trouble is not None:
            _log.info("reports arrive", **what)
        self._delivered, self._trouble = True, None


class ReportLoop:
    """One conversation with the master, for as long as the process lives.

    `counts` are the counters of errors, None while a source of them does not answer; they travel
    with the next report, which they do not hasten. Nothing is sent while `is_silent`: a replay
    simulates a node that stopped reporting.
    """

    def __init__(
        self,
        pending: PendingReport,
        session: Session,
        master: MasterConnection,
        metrics: Metrics,
        *,
        counts: Callable[[], tuple[LinkCount, ...] | None] = lambda: None,
        is_silent: Callable[[], bool] = lambda: False,
    ) -> None:
        self._counts = counts
        self._pending = pending
        self._session = session
        self._master = master
        self._metrics = metrics
        self._is_silent = is_silent
        self._outages = Outages(metrics)

    async def run(self) -> None:
        """Send until cancelled, one report at a time, always with the latest facts."""
        while True:
            beat_s = self._session.beat_s
            await self._pending.wait(min(beat_s, _SILENCE_S) if self._is_silent() else beat_s)
            await retrying(self._session.beat_s)(self._send)

    async def _send(self) -> None:
        facts = self._pending.facts
        if facts is None:
            return
        if self._is_silent():
            self._pending.acknowledged(facts)
            return
        report = self._session.report(facts, self._counts())
        try:
            answer = await self._master.send(report)
        except ReportLostError as lost:
            self._session.lost()
            self._outages.lost(lost)
            raise
        self._session.accepted(facts, answer)
        self._metrics.reported(report.kind, facts)
        self._outages.delivered(gpus=len(facts.gpus), ports=len(facts.ports))
        self._pending.acknowledged(facts)
        if report.kind != "full" and not self._session.in_step:
            self._pending.request_full()
