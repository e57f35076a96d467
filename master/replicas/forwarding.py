"""Forwards reports that reach a follower to the leader, and its answers back.

A follower accepts the same tokens as the leader (`master/sources/workers/port.py`), so that no
stranger's body is read. The leader checks the token again, and everything else. The only address it
calls is that of the leader on the Lease; nothing in a request chooses it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import prometheus_client as prom
import structlog
from aiohttp import web

from master.replicas.peer import NoAnswerError, PeerMaster
from master.role import Role, not_leader
from topo.kit.serving.body import body_bytes
from topo.kit.serving.problem import bad_input, problem
from topo.model.errors import BadInputError
from topo.model.wire import REPORTS_PATH

FORWARDED = "Topo-Forwarded"
MAX_UNDER_WAY = 256
"""Reports that are forwarded at once; each is held in memory."""
TIMEOUT_S = 5.0
_MAX_ANSWER_BYTES = 64 * 1024
_TAKEN_ALONG = ("Authorization", "Content-Type")
_BROUGHT_BACK = ("Content-Type", "Retry-After", "WWW-Authenticate", "Accept-Encoding")
_RETRY = {"Retry-After": "1"}

_log = structlog.get_logger(__name__)
Handler = Callable[[web.Request], Awaitable[web.Response]]


@dataclass(slots=True, kw_only=True)
class ReportForwarder:
    """Forwards reports while this master follows."""

    role: Callable[[], Role]
    peer: PeerMaster
    reports: prom.Counter
    _under_way: int = 0
    _failing: bool = False

    async def forward(self, request: web.Request) -> web.Response:
        """Return the leader's answer, or 503 with the time to wait before another try."""
        role = self.role()
        if not role.reports_url or FORWARDED in request.headers:
            return self._refused("not-leader", not_leader(role))
        if self._under_way >= MAX_UNDER_WAY:
            what = f"{MAX_UNDER_WAY} reports are on their way to the leader already"
            answer = problem(503, what, fix="send it again", headers=_RETRY)
            return self._refused("too-many-forwarded", answer)
        self._under_way += 1
        try:
            return await self._forwarded(request, role)
        except BadInputError as error:
            return self._refused("malformed", bad_input(error))
        finally:
            self._under_way -= 1

    async def _forwarded(self, request: web.Request, role: Role) -> web.Response:
        headers = {name: request.headers[name] for name in _TAKEN_ALONG if name in request.headers}
        body = await body_bytes(request)
        try:
            answer = await self.peer.ask(
                "POST",
                role.reports_url + REPORTS_PATH,
                headers={**headers, FORWARDED: "1"},
                body=body,
                limit_bytes=_MAX_ANSWER_BYTES,
                timeout_s=TIMEOUT_S,
            )
        except NoAnswerError as error:
            self._tell(role, str(error))
            what = f"the leader, {role.reports_url}, cannot be reached by this follower"
            answer503 = problem(503, what, fix="send it again", headers=_RETRY)
            return self._refused("leader-unreachable", answer503)
        self._failing = False
        self.reports.labels("unknown", "forwarded").inc()
        brought = {name: answer.headers[name] for name in _BROUGHT_BACK if name in answer.headers}
        return web.Response(status=answer.status, body=answer.body, headers=brought)

    def _refused(self, result: str, answer: web.Response) -> web.Response:
        self.reports.labels("unknown", result).inc()
        return answer

    def _tell(self, role: Role, why: str) -> None:
        if not self._failing:
            _log.warning("reports cannot be passed on", leader=role.reports_url, why=why)
        self._failing = True
