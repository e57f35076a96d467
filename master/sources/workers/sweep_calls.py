"""The calls of nodes that sweep a fabric, on the port of the workers.

A dump says where every node is. So the master refuses a node that `--fabric-sweep-nodes` does not
name, and a token that any node may have, before it reads a byte of the body. The text stays packed
here; the source unpacks it within its limit. A follower checks the same, and sends the call on.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import prometheus_client as prom
from aiohttp import web
from pydantic import ValidationError

from master.sources.workers.sweeps import Sweeps
from topo.kit.serving.body_reader import BodyLimits, BodyReader
from topo.kit.serving.problem import answer_expectation, bad_input, problem
from topo.kit.serving.validation import MAX_MISTAKES, listed_mistakes
from topo.kit.tokens import Identity
from topo.model.conditions.sources import ReportCondition
from topo.model.errors import BadInputError, Refusal
from topo.model.ids import NodeName
from topo.model.wire import (
    MAX_PACKED_DUMP_BYTES,
    MAX_SWEEP_REPORT_BYTES,
    SWEEP_DIGEST,
    SWEEPS_PATH,
    SWEPT_PORT,
    SweepAnswer,
    SweepReport,
)

TEXTS_AT_ONCE = 2
"""Texts that arrive at the same time, each held in memory."""
_RETRY = {"Retry-After": "1"}


LIMITS = BodyLimits(
    max_bytes=MAX_SWEEP_REPORT_BYTES,
    values=1024,
    objects=64,
    members=512,
    inline_bytes=16 << 10,
    inline_opened=64,
    fix="are worker and master of one version?",
)
"""The ports of a host, of which a report lists 16 at most."""
TEXTS = BodyLimits(max_bytes=MAX_PACKED_DUMP_BYTES, values=0, objects=0, members=0, inline_bytes=0)
"""A packed text is kept as it came."""


class CallPort(Protocol):
    """The port of the workers, on which these calls arrive: it identifies senders and forwards."""

    async def identify(self, request: web.Request) -> Identity | web.Response:
        """Return whom the request speaks for, or the answer to one that is not let in."""
        ...

    def acts(self) -> bool:
        """Return whether this master takes calls itself."""
        ...

    async def sent_on(self, request: web.Request, limit_bytes: int) -> web.Response:
        """Return the leader's answer, or a refusal."""
        ...


Handler = Callable[[CallPort, NodeName, web.Request], Awaitable[web.Response]]


@dataclass(slots=True, kw_only=True)
class SweepCalls:
    """The handlers. `note` tells of a refusal: its code, who was refused, and why."""

    sweeps: Sweeps
    reports: prom.Counter
    note: Callable[[str, str, str], None]
    bodies: BodyReader = field(default_factory=partial(BodyReader, LIMITS))
    texts: BodyReader = field(default_factory=lambda: BodyReader(TEXTS))
    _texts: int = field(default=0, init=False)

    def add_routes(self, router: web.UrlDispatcher, port: CallPort) -> None:
        """Add the calls to the port of the workers."""
        text_path = f"{SWEEPS_PATH}/{{port:{SWEPT_PORT}}}/{{digest:{SWEEP_DIGEST}}}"
        for path, handle in ((SWEEPS_PATH, self._post_sweeps), (text_path, self._post_text)):
            handler = partial(self._of_named, port, handle)
            router.add_post(path, handler, expect_handler=answer_expectation)

    async def _of_named(
        self, port: CallPort, handle: Handler, request: web.Request
    ) -> web.Response:
        """Handle the call of a named node; refuse that of any other."""
        identity = await port.identify(request)
        if isinstance(identity, web.Response):
            return identity
        node = identity.node
        if node is None or not self.sweeps.names(node):
            return self._not_named(port, node, request.remote)
        return await handle(port, node, request)

    async def _post_sweeps(
        self, port: CallPort, node: NodeName, request: web.Request
    ) -> web.Response:
        if not port.acts():
            return await port.sent_on(request, MAX_SWEEP_REPORT_BYTES)
        if not self.sweeps.admits(node):
            return self._refused(429, "too-fast", "more calls than agreed", "slow down")
        try:
            report = await self.bodies.value(request, _report)
        except BadInputError as error:
            self.reports.labels("sweep", "malformed").inc()
            return bad_input(error)
        self.reports.labels("sweep", "taken").inc()
        return _answer(self.sweeps.hear(node, report))

    async def _post_text(
        self, port: CallPort, node: NodeName, request: web.Request
    ) -> web.Response:
        if self._texts >= TEXTS_AT_ONCE:
            what = f"{TEXTS_AT_ONCE} dumps are arriving already"
            return self._refused(503, "busy", what, "send it again")
        self._texts += 1
        try:
            if not port.acts():
                return await port.sent_on(request, MAX_PACKED_DUMP_BYTES)
            if not self.sweeps.admits(node):
                return self._refused(429, "too-fast", "more calls than agreed", "slow down")
            async with self.texts.read(request) as packed:
                pass  # it is unpacked and read by the source, in a thread
        except BadInputError as error:
            self.reports.labels("dump", "malformed").inc()
            return bad_input(error)
        finally:
            self._texts -= 1
        of = request.match_info
        answer = self.sweeps.deliver(node, of["port"], of["digest"], packed)
        if isinstance(answer, Refusal):
            return self._refused(503, "not-wanted", answer.what, answer.fix)
        self.reports.labels("dump", "taken").inc()
        return _answer(answer)

    def _not_named(self, port: CallPort, node: NodeName | None, remote: str | None) -> web.Response:
        """Refuse a node whose dumps do not count, and who has a token that names no node."""
        code = ReportCondition.UNNAMED_SWEEPER
        sender = node or remote or "an unknown address"
        why = "its node is not in --fabric-sweep-nodes"
        fix = f"add {node} to --fabric-sweep-nodes, if it is to say what the fabric is"
        if node is None:
            why = "its token is that of no node"
            fix = "give the node a token of its own in --worker-token-file, or a service account"
        self.reports.labels("sweep", code).inc()
        if port.acts():
            self.note(code, sender, why)
        return problem(403, f"the dumps of {sender} do not count: {why}", fix=fix, code=code)

    def _refused(self, status: int, result: str, what: str, fix: str) -> web.Response:
        self.reports.labels("dump", result).inc()
        return problem(status, what, fix=fix, headers=_RETRY)


def _report(content: bytes) -> SweepReport:
    """Return what a host says of its sweeps; raises `BadInputError`."""
    try:
        return SweepReport.model_validate_json(content)
    except ValidationError as error:
        fix = "are worker and master of one version?"
        findings = listed_mistakes(error)
        if not findings:
            what = f"the body has more than {MAX_MISTAKES} mistakes"
            raise BadInputError(Refusal(what, "body", fix)) from None
        where = ".".join(str(part) for part in findings[0]["loc"])[:128] or "body"
        raise BadInputError(Refusal(findings[0]["msg"], where, fix)) from None


def _answer(answer: SweepAnswer) -> web.Response:
    return web.json_response(text=answer.model_dump_json())
