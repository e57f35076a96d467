"""Forwards what reaches a follower to the leader, and its answers back: reports and questions.

A follower accepts the same tokens as the leader (`master/sources/workers/port.py`), so that no
stranger's body is read. The leader checks the token again, and everything else. The only address it
calls is that of the leader on the Lease; nothing in a request chooses it.

Schedulers ask whichever master their Service leads to. What is booked and what has just been let
pass is known to the leader alone, so that a follower's own answer could give a GPU away twice.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

import prometheus_client as prom
import structlog
from aiohttp import web

from master.replicas.credential import Credential
from master.replicas.peer import NoAnswerError, PeerMaster
from master.role import Replica, Role, not_leader
from topo.kit.serving.body import body_bytes
from topo.kit.serving.problem import bad_input, problem
from topo.model.errors import BadInputError

FORWARDED = "Topo-Forwarded"
MAX_UNDER_WAY = 256
"""Reports that are forwarded at once; each is held in memory."""
TIMEOUT_S = 5.0
QUESTIONS_UNDER_WAY = 16
"""Questions that are forwarded at once. A scheduler asks about one pod after the other."""
QUESTION_S = 3.0
"""The leader waits up to a second for a plan; a scheduler gives up after 5 s by default."""
MAX_REPLY_BYTES = 16 << 20
"""An answer to a question: the nodes of its body, and a sentence for each that is refused."""
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

    async def forward(self, request: web.Request, limit_bytes: int) -> web.Response:
        """Return the leader's answer, or 503 with the time to wait before another try.

        The path is one that a route of this master matched, and so a call of the leader's.
        """
        role = self.role()
        if not role.reports_url or FORWARDED in request.headers:
            return self._refused("not-leader", not_leader(role))
        if self._under_way >= MAX_UNDER_WAY:
            what = f"{MAX_UNDER_WAY} reports are on their way to the leader already"
            answer = problem(503, what, fix="send it again", headers=_RETRY)
            return self._refused("too-many-forwarded", answer)
        self._under_way += 1
        try:
            return await self._forwarded(request, role, limit_bytes)
        except BadInputError as error:
            return self._refused("malformed", bad_input(error))
        finally:
            self._under_way -= 1

    async def _forwarded(self, request: web.Request, role: Role, limit_bytes: int) -> web.Response:
        headers = {name: request.headers[name] for name in _TAKEN_ALONG if name in request.headers}
        body = await body_bytes(request, limit_bytes=limit_bytes)
        try:
            answer = await self.peer.ask(
                "POST",
                role.reports_url + request.path,
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


@dataclass(slots=True, kw_only=True)
class QuestionForwarder:
    """Forwards questions of schedulers while this master does not serve.

    `peer` expects the certificate of the extender's port. `credential` is sent along where that
    port asks who asks; None where anybody may.
    """

    replica: Replica
    peer: PeerMaster
    credential: Credential | None = None
    _under_way: int = 0

    async def ask(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes | str | None:
        """Return the leader's answer to a question that came with these headers.

        A text: why there is none now. None: this master answers itself.
        """
        if self.replica.serves:
            return None
        url = self.replica.role.extender_url
        if not url or FORWARDED in headers:
            return "no master that leads is known"
        if self._under_way >= QUESTIONS_UNDER_WAY:
            return f"{QUESTIONS_UNDER_WAY} questions are on their way to the leader already"
        self._under_way += 1
        try:
            answer = await self.peer.ask(
                "POST",
                url + path,
                headers={
                    "Content-Type": "application/json",
                    FORWARDED: "1",
                    **await self._authorization(),
                },
                body=body,
                limit_bytes=MAX_REPLY_BYTES,
                timeout_s=QUESTION_S,
            )
        except (NoAnswerError, BadInputError) as error:
            return f"the leader, {url}, cannot be reached: {error}"
        finally:
            self._under_way -= 1
        if answer.status != HTTPStatus.OK:
            return f"the leader, {url}, answers {answer.status}"
        return answer.body

    async def _authorization(self) -> Mapping[str, str]:
        """Return the header that makes this master known. Raises `BadInputError`."""
        if self.credential is None:
            return {}
        return {"Authorization": f"Bearer {await self.credential.own()}"}
