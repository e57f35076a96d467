"""The port that schedulers ask: kube-scheduler's extender calls, and GPUManager's predicates.

    POST /scheduler/filter        which nodes a pod may use: ExtenderArgs → ExtenderFilterResult
    POST /scheduler/prioritize    how good each is, 0 to 10: ExtenderArgs → HostPriorityList
    POST /scheduler/predicates    which nodes the quota of its namespace leaves it; `?nodes=one`:
                                  at most one of them

No token is asked for, as schedulers send none: an answer changes no booking and tells nothing that
`GET /v1/topology` does not. A body that cannot be used is answered with 200 and `Error`, which the
scheduler shows as the reason of the pod.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiohttp import web

from master.extender.answers import Extender
from master.extender.wire import Asked, error_answer, filter_answer, priorities, read_asked
from topo.gangs.extender.verdicts import NodeVerdict
from topo.kit.serving.bodies import Bodies
from topo.kit.serving.connections import Connections
from topo.kit.serving.problem import answer_expectation, problems
from topo.model.errors import BadInputError

MAX_BODY_BYTES = 8 << 20
"""Names of 100,000 nodes have 4 MB. Whole nodes have some 30 kB each, so that 250 fit: a larger
cluster has to set `nodeCacheCapable`. JSON of that size becomes objects of some 100 MiB."""
BODIES_BYTES = 16 << 20
"""Questions that are received or answered. A scheduler asks about one pod after the other."""
ANSWERS_BYTES = 16 << 20
CONNECTIONS = 256
INLINE_BYTES = 1 << 20
"""A larger question is read in a thread, one at a time: its JSON takes the loop for longer."""

Answer = Callable[[web.Request, Asked], Awaitable[bytes]]


def extender_connections() -> Connections:
    """Return the connections of the port."""
    return Connections("extender", CONNECTIONS, ANSWERS_BYTES)


def extender_app(extender: Extender) -> web.Application:
    """Return the web application of the three calls."""
    calls = _Calls(extender)
    app = web.Application(middlewares=[problems], client_max_size=MAX_BODY_BYTES)
    for verb, answer in (
        ("filter", calls.filter),
        ("prioritize", calls.prioritize),
        ("predicates", calls.predicates),
    ):
        handler = calls.handler(verb, answer)
        app.router.add_post(f"/scheduler/{verb}", handler, expect_handler=answer_expectation)
    return app


class _Calls:
    """The calls of one port; they share the budget of bodies."""

    def __init__(self, extender: Extender) -> None:
        self._extender = extender
        self._bodies, self._large = Bodies(BODIES_BYTES), asyncio.Lock()

    def handler(
        self, verb: str, answer: Answer
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return the handler of a call: its body is read, answered, counted and timed."""
        metrics = self._extender.metrics

        async def handle(request: web.Request) -> web.Response:
            began_s = time.perf_counter()
            try:
                async with self._bodies.read(request) as content:
                    body = await answer(request, await self._read(content))
            except BadInputError as error:
                metrics.answers.labels(verb, "error").inc()
                body = error_answer(str(error.refusal))
            metrics.seconds.labels(verb).observe(time.perf_counter() - began_s)
            return web.Response(body=body, content_type="application/json")

        return handle

    async def filter(self, _request: web.Request, asked: Asked) -> bytes:
        return filter_answer(asked, await self._extender.filtered(asked))

    async def prioritize(self, _request: web.Request, asked: Asked) -> bytes:
        return priorities(asked, await self._extender.scores(asked))

    async def predicates(self, request: web.Request, asked: Asked) -> bytes:
        verdict = await self._extender.within_quota(asked)
        is_one = request.query.get("nodes") == "one"
        return filter_answer(asked, _first(verdict) if is_one else verdict)

    async def _read(self, content: bytes) -> Asked:
        if len(content) <= INLINE_BYTES:
            return read_asked(content)
        async with self._large:
            return await asyncio.to_thread(read_asked, content)


def _first(verdict: NodeVerdict) -> NodeVerdict:
    """Return the verdict with its first node alone."""
    if len(verdict.passed) < 2:
        return verdict
    first, rest = verdict.passed[:1], verdict.passed[1:]
    others = dict.fromkeys(rest, f"topo: {first[0]} is taken")
    return replace(verdict, passed=first, failed={**verdict.failed, **others})
