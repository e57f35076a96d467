"""The port that workers report to (10001): checks the sender and the report.

A beat is the hot path: 10,000 workers send a thousand a second. It costs one look-up of a token's
digest, one small JSON document, one append to the engine's queue and prepared bytes back.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import prometheus_client as prom
from aiohttp import web
from pydantic import ValidationError

from master.kube.service_accounts.accounts import Denied
from master.rate_limits import SenderLimits
from master.role import ALONE, Role, not_leader
from master.sources.workers.identity import WorkerIdentities
from master.sources.workers.malformed import (
    MALFORMED_BURST,
    MALFORMED_RATE,
    MALFORMED_RETRY_S,
    sender_of,
)
from master.sources.workers.refused import RefusedReports
from master.sources.workers.sessions import ReportRefused, Result, Sessions
from master.sources.workers.sweep_calls import SweepCalls
from topo.kit.serving.body_reader import BodyLimits, BodyReader
from topo.kit.serving.problem import (
    answer_expectation,
    bad_input,
    problem,
    problems,
)
from topo.kit.serving.validation import MAX_MISTAKES, listed_mistakes
from topo.kit.tokens import Identity, bearer
from topo.model.conditions.sources import ReportCondition
from topo.model.errors import BadInputError, Refusal
from topo.model.wire import MAX_REPORT_BYTES, REPORTS_PATH, Report

_NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
"""Kubernetes node names (RFC 1123 subdomains) and the looser host names outside it."""

Forward = Callable[[web.Request, int], Awaitable[web.Response]]
_MAX_SHOWN = 128
_UNKNOWN_TOKENS = frozenset({ReportCondition.NO_TOKENS, ReportCondition.UNKNOWN_TOKEN})
MAX_VALUES = 1 << 16
"""JSON values of a report: 128 GPUs with a link to each other have 16,384, and 2,048 ports ten
each. So many take the validation 20 ms, during which no other thread runs."""
MAX_OBJECTS = 1 << 13
"""Objects of a report: GPUs, ports, neighbours and counters within their own limits."""
INLINE_BYTES = 64 << 10
LIMITS = BodyLimits(
    max_bytes=MAX_REPORT_BYTES,
    values=MAX_VALUES,
    objects=MAX_OBJECTS,
    members=MAX_VALUES,
    inline_bytes=INLINE_BYTES,
    inline_opened=1024,
    fix="run workers of the master's release: theirs are smaller",
)
NEEDS_A_PERSON = frozenset({ReportCondition.TOO_MANY_NODES, ReportCondition.BAD_NODE_NAME})
"""Refusals that are in no list of conflicts, and that no worker can end by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPort:
    """The handler of reports and its parts.

    `refused` counts refusals; `api` is where the HTTP API is. `forward` answers in a follower,
    which otherwise refuses.
    """

    identities: WorkerIdentities
    sessions: Sessions
    refused: RefusedReports
    clock: Callable[[], float]
    reports: prom.Counter
    api: str = "the port of --server-port"
    role: Callable[[], Role] = lambda: ALONE
    forward: Forward | None = None
    sweep_calls: SweepCalls
    bodies: BodyReader = field(default_factory=partial(BodyReader, LIMITS))
    malformed: SenderLimits = field(
        default_factory=lambda: SenderLimits(MALFORMED_RATE, MALFORMED_BURST)
    )

    def app(self) -> web.Application:
        """Return the application of the workers' port."""
        app = web.Application(middlewares=[problems], client_max_size=MAX_REPORT_BYTES)
        app.router.add_post(REPORTS_PATH, self._handler(), expect_handler=answer_expectation)
        self.sweep_calls.add_routes(app.router, self)
        app.router.add_route("*", "/{path:.*}", self._elsewhere, expect_handler=answer_expectation)
        return app

    async def _elsewhere(self, request: web.Request) -> web.Response:
        """Answer any other request: its client mistook this for the port of the HTTP API."""
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
            in_force = self.identities.tokens.tokens
            identity = await self.identify(request)
            if isinstance(identity, web.Response):
                return identity
            if not self.role().acts:
                return await self.sent_on(request, MAX_REPORT_BYTES)
            sender = sender_of(identity, request.remote)
            report = await self._read(request, sender)
            if not isinstance(report, Report):
                return report
            if self.identities.tokens.tokens is not in_force:  # it changed while the body came
                identity = await self.identify(request)
                if isinstance(identity, web.Response):
                    return identity
            answer = self._received(report, identity)
            if isinstance(answer, ReportRefused):
                return self._declined(report, sender, answer)
            taken[report.kind].inc()
            text = f'{{"seq":{report.seq},"want":"{answer.want}","beat_s":{beat_s}}}'
            return web.Response(text=text, content_type="application/json")

        return post_report

    async def identify(self, request: web.Request) -> Identity | web.Response:
        """Return whom the request speaks for, or the answer to one that is not let in."""
        identity = await self.identities.identify(request)
        return self._unauthorized(request, identity) if isinstance(identity, Denied) else identity

    def acts(self) -> bool:
        """Return whether this master takes calls itself."""
        return self.role().acts

    async def sent_on(self, request: web.Request, limit_bytes: int) -> web.Response:
        """Return the leader's answer, or a refusal that names the leader."""
        if self.forward is not None:
            return await self.forward(request, limit_bytes)
        self.reports.labels("unknown", "not-leader").inc()
        return not_leader(self.role())

    async def _read(self, request: web.Request, sender: str) -> Report | web.Response:
        """Return the report, or the answer to one that is not read or cannot be."""
        if not self.malformed.has_room(sender, self.clock()):
            return self._too_many()
        try:
            async with self.bodies.read(request) as content:
                if not self.malformed.has_room(sender, self.clock()):  # others came meanwhile
                    return self._too_many()
                return await self.bodies.interpreted(content, _report)
        except BadInputError as error:
            self._malformed(request, sender, error.refusal)
            return bad_input(error)

    def _too_many(self) -> web.Response:
        self.reports.labels("unknown", "too-many-malformed").inc()
        return problem(
            429,
            f"more than {MALFORMED_BURST:g} reports from here could not be read; "
            f"one each {1 / MALFORMED_RATE:g} s is tried",
            fix="run workers of the master's release, and give each node a token of its own",
            headers={"Retry-After": str(MALFORMED_RETRY_S)},
        )

    def _received(self, report: Report, identity: Identity) -> Result:
        now_s = self.clock()
        if _NODE_NAME.fullmatch(report.node) is None:
            text = "a node name has letters, digits, dots, dashes, and begins and ends with no sign"
            return ReportRefused(
                400, ReportCondition.BAD_NODE_NAME, text, "use the node's Kubernetes or host name"
            )
        holder = identity.node
        if holder is not None and not identity.may_report(report.node):
            return self.sessions.foreign(report, holder, now_s)
        return self.sessions.receive(report, now_s)

    def _declined(self, report: Report, sender: str, declined: ReportRefused) -> web.Response:
        self.reports.labels(report.kind, declined.code).inc()
        if declined.code == ReportCondition.BAD_NODE_NAME:
            self.malformed.add(sender, self.clock())
        if declined.code in NEEDS_A_PERSON:
            self.refused.add(declined.code, report.node, declined.text, self.clock())
        headers = {}
        if declined.retry_after_s is not None:
            headers["Retry-After"] = str(max(1, round(declined.retry_after_s)))
        return problem(
            declined.status, declined.text, fix=declined.fix, headers=headers, code=declined.code
        )

    def _note(self, request: web.Request, code: str, why: str) -> None:
        """Count a refusal; a follower refuses everything, and has nothing to tell of it."""
        if self.role().acts:
            self.refused.add(code, request.remote or "an unknown address", why, self.clock())

    def _malformed(self, request: web.Request, sender: str, refused: Refusal) -> None:
        self.malformed.add(sender, self.clock())
        self.reports.labels("unknown", "malformed").inc()
        self._note(request, ReportCondition.MALFORMED, f"{refused.what} (at {refused.where})")

    def _unauthorized(self, request: web.Request, denied: Denied) -> web.Response:
        """Return the answer to a token that is refused, or that cannot be reviewed now."""
        is_plain = denied.code in _UNKNOWN_TOKENS
        self.reports.labels("unknown", "unauthorized" if is_plain else denied.code).inc()
        why = denied.refusal.what
        if denied.code == ReportCondition.NO_TOKENS:
            why = "this master has no token file, and lets nobody in"
        elif is_plain:
            has_one = bearer(request.headers) is not None
            why = (
                f"it carried {'a token that this master does not know' if has_one else 'no token'}"
            )
        self._note(request, denied.code, why)
        if denied.retry_after_s is not None:
            status, headers = 503, {"Retry-After": str(max(1, round(denied.retry_after_s)))}
        else:
            status, headers = 401, {"WWW-Authenticate": "Bearer"}
        refused = denied.refusal
        return problem(
            status,
            refused.what,
            field=refused.where,
            fix=refused.fix,
            headers=headers,
            code=denied.code,
        )


def _report(content: bytes) -> Report:
    """Return the report; raises `BadInputError`."""
    try:
        return Report.model_validate_json(content)
    except ValidationError as error:
        raise BadInputError(_not_understood(error)) from None


def _not_understood(error: ValidationError) -> Refusal:
    findings = listed_mistakes(error)
    if not findings:
        fix = "are worker and master of one version?"
        return Refusal(f"the report has more than {MAX_MISTAKES} mistakes", "body", fix)
    finding = findings[0]
    where = ".".join(str(part) for part in finding["loc"])[:_MAX_SHOWN] or "body"
    fix = "see docs/api.md for the worker's messages; are worker and master of one version?"
    return Refusal(finding["msg"], where, fix)
