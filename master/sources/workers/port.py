"""The port that workers report to (10001): checks who sends and whether the report is sound.

The way of a beat is the hot path: 10,000 workers make a thousand a second. It is one look-up of a
token's digest, one small JSON document, one append to the engine's queue and prepared bytes back.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import prometheus_client as prom
from aiohttp import web
from pydantic import ValidationError

from master.role import ALONE, Role, not_leader
from master.sources.workers.sessions import ReportRefused, Result, Sessions
from master.sources.workers.unauthorized import UnauthorizedReports
from master.tokens import Tokens
from topo.kit.body import body_bytes
from topo.kit.problem import problem, problems
from topo.kit.tokens import Identity, bearer
from topo.model.errors import BadInputError
from topo.model.wire import MAX_REPORT_BYTES, REPORTS_PATH, Report

_NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
"""Kubernetes node names (RFC 1123 subdomains) and the looser host names outside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPort:
    """What the handler needs: the tokens, the sessions, a clock, a counter, the master's role.

    `unauthorized` counts those whose token nobody knows; `api` is where the HTTP API is instead.
    """

    tokens: Tokens
    sessions: Sessions
    unauthorized: UnauthorizedReports
    clock: Callable[[], float]
    reports: prom.Counter
    api: str = "the port of --server-port"
    role: Callable[[], Role] = lambda: ALONE

    def app(self) -> web.Application:
        """The application of the workers' port."""
        app = web.Application(middlewares=[problems], client_max_size=MAX_REPORT_BYTES)
        app.router.add_post(REPORTS_PATH, self._handler())
        app.router.add_route("*", "/{path:.*}", self._elsewhere)
        return app

    async def _elsewhere(self, request: web.Request) -> web.Response:
        """Whoever asks anything else took this for the port of the HTTP API."""
        if request.path == REPORTS_PATH:
            raise web.HTTPMethodNotAllowed(request.method, ["POST"])
        return problem(
            404,
            f"{request.method} {request.path}: this port takes the reports of workers, "
            "and nothing else",
            fix=f"ask the HTTP API: {self.api}",
        )

    def _handler(self) -> Callable[[web.Request], Awaitable[web.Response]]:
        taken = {kind: self.reports.labels(kind, "taken") for kind in ("full", "change", "beat")}
        beat_s = self.sessions.beat_s

        async def post_report(request: web.Request) -> web.Response:
            identity = self.tokens.identify(request)
            if identity is None:
                return self._unauthorized(request)
            if not self.role().acts:
                self.reports.labels("unknown", "not-leader").inc()
                return not_leader(self.role())
            try:
                report = Report.model_validate_json(await body_bytes(request))
            except BadInputError:
                self.reports.labels("unknown", "malformed").inc()
                raise
            except ValidationError as error:
                self.reports.labels("unknown", "malformed").inc()
                return _malformed(error)
            answer = self._received(report, identity)
            if isinstance(answer, ReportRefused):
                self.reports.labels(report.kind, answer.code).inc()
                return _declined(answer)
            taken[report.kind].inc()
            text = f'{{"seq":{report.seq},"want":"{answer.want}","beat_s":{beat_s}}}'
            return web.Response(text=text, content_type="application/json")

        return post_report

    def _received(self, report: Report, identity: Identity) -> Result:
        now_s = self.clock()
        if _NODE_NAME.fullmatch(report.node) is None:
            text = "a node name has letters, digits, dots, dashes, and begins and ends with no sign"
            return ReportRefused(
                400, "bad-node-name", text, "use the node's Kubernetes or host name"
            )
        holder = identity.node
        if holder is not None and not identity.may_report(report.node):
            return self.sessions.foreign(report, holder, now_s)
        return self.sessions.receive(report, now_s)

    def _unauthorized(self, request: web.Request) -> web.Response:
        self.reports.labels("unknown", "unauthorized").inc()
        has_file = self.tokens.tokens is not None
        if self.role().acts:
            self.unauthorized.add(
                request.remote or "an unknown address",
                self.clock(),
                has_token=bearer(request.headers) is not None,
                has_file=has_file,
            )
        fix = "send the worker's token (--token-file)"
        if not has_file:
            fix = "start the master with --worker-token-file, or for trials with "
            fix += "--allow-anonymous-workers"
        return problem(
            401,
            "the report carries no token that is known here",
            field="Authorization",
            fix=fix,
            headers={"WWW-Authenticate": "Bearer"},
        )


def _malformed(error: ValidationError) -> web.Response:
    finding = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in finding["loc"]) or "body"
    fix = "see docs/api.md for the worker's messages; are worker and master of one version?"
    return problem(400, finding["msg"], field=where, fix=fix)


def _declined(declined: ReportRefused) -> web.Response:
    headers = {}
    if declined.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(declined.retry_after_s)))
    return problem(
        declined.status, declined.text, fix=declined.fix, headers=headers, code=declined.code
    )
