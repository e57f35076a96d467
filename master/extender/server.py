"""The port that schedulers ask: kube-scheduler's extender calls, and GPUManager's predicates.

    POST /scheduler/filter        which nodes a pod may use: ExtenderArgs → ExtenderFilterResult
    POST /scheduler/prioritize    how good each is, 0 to 10: ExtenderArgs → HostPriorityList
    POST /scheduler/predicates    which nodes the quota of its namespace leaves it; `?nodes=one`:
                                  at most one of them

An answer changes no booking. Schedulers send no token: where an authority of clients is given, a
question without a certificate of it is refused (`master/extender/callers.py`), and else anybody may
ask. A body that cannot be used is answered with 200 and `Error`, which the scheduler shows as the
reason of the pod. A follower asks the leader about pods with GPUs.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from aiohttp import web

from master.extender.answers import AWAITED, DENIED, FORWARDED, Extender
from master.extender.callers import Callers
from master.extender.wire import MAX_NAMES, NodeQuestion, error_answer, filter_answer, priorities
from topo.gangs.extender.verdicts import NodeVerdict
from topo.kit.serving.body_reader import BodyLimits, BodyReader
from topo.kit.serving.connections import Connections
from topo.kit.serving.problem import answer_expectation, problems
from topo.model.errors import BadInputError, Refusal

MAX_BODY_BYTES = 8 << 20
"""Names of 100,000 nodes have 4 MB. Whole nodes have some 30 kB and 1,000 members each, so that
150 fit: a larger cluster has to set `nodeCacheCapable`."""
BODIES_BYTES = 16 << 20
"""Questions that are received or answered. A scheduler asks about one pod after the other."""
ANSWERS_BYTES = 16 << 20
CONNECTIONS = 256
MAX_VALUES = MAX_NAMES + 20_000
"""JSON values of a question: all names and a pod. So many take the parser, which stops all threads,
40 ms; 8 MiB of the smallest ones 0.25 s and more."""
MAX_OBJECTS = 1 << 17
"""Objects in a question: 150 whole nodes have some 400 each."""
INLINE_BYTES = 128 << 10
"""A larger question is read in a thread, one at a time. The names of 5,000 nodes have 100 kB."""
MAX_MEMBERS = 150_000
"""Members of these objects: so many names in one object take the parser 25 ms."""
LIMITS = BodyLimits(
    max_bytes=MAX_BODY_BYTES,
    values=MAX_VALUES,
    objects=MAX_OBJECTS,
    members=MAX_MEMBERS,
    inline_bytes=INLINE_BYTES,
    fix="set nodeCacheCapable: true for the extender, so that names are sent and not whole nodes",
)

PREFIX = "/scheduler"
_ONE = "?nodes=one"

Answer = Callable[[web.Request, NodeQuestion], Awaitable[bytes]]
AskLeader = Callable[[str, bytes, Mapping[str, str]], Awaitable[bytes | str | None]]
"""Returns the leader's answer to a question by its path, body and headers; a text: why there is
none now; None: this master leads."""


def extender_connections() -> Connections:
    """Return the connections of the port."""
    return Connections("extender", CONNECTIONS, ANSWERS_BYTES)


def extender_app(
    extender: Extender, ask_leader: AskLeader | None = None, callers: Callers | None = None
) -> web.Application:
    """Return the web application of the three calls.

    `ask_leader` is None without other masters, `callers` where anybody may ask.
    """
    calls = _Calls(extender, ask_leader, callers)
    app = web.Application(middlewares=[problems], client_max_size=MAX_BODY_BYTES)
    for verb, answer in (
        ("filter", calls.filter),
        ("prioritize", calls.prioritize),
        ("predicates", calls.predicates),
    ):
        handler = calls.handler(verb, answer)
        app.router.add_post(f"{PREFIX}/{verb}", handler, expect_handler=answer_expectation)
    return app


class _Calls:
    """The calls of one port; they share the budget of bodies."""

    def __init__(
        self, extender: Extender, ask_leader: AskLeader | None, callers: Callers | None
    ) -> None:
        self._extender, self._ask_leader, self._callers = extender, ask_leader, callers
        self._bodies = BodyReader(LIMITS, BODIES_BYTES)

    def handler(
        self, verb: str, answer: Answer
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return the handler of a call: its body is read, answered, counted and timed."""
        metrics = self._extender.metrics

        async def handle(request: web.Request) -> web.Response:
            began_s = time.perf_counter()
            denied = None if self._callers is None else await self._callers.refusal(request)
            if denied is not None:
                metrics.answers.labels(verb, DENIED).inc()
                return denied
            try:
                async with self._bodies.read(request) as content:
                    asked = await self._bodies.interpreted(content, self._extender.reader.read)
                    body = await self._of_leader(request, verb, asked, content)
                    if body is None:
                        body = await answer(request, asked)
            except BadInputError as error:
                metrics.answers.labels(verb, "error").inc()
                body = error_answer(str(error.refusal))
            metrics.seconds.labels(verb).observe(time.perf_counter() - began_s)
            return web.Response(body=body, content_type="application/json")

        return handle

    async def filter(self, _request: web.Request, asked: NodeQuestion) -> bytes:
        return await self._write_answer(asked, await self._extender.filter_nodes(asked))

    async def prioritize(self, _request: web.Request, asked: NodeQuestion) -> bytes:
        scores = await self._extender.scores(asked)
        return await self._extender.over_names(asked, partial(priorities, asked, scores))

    async def predicates(self, request: web.Request, asked: NodeQuestion) -> bytes:
        is_one = _asks_for_one(request)
        return await self._write_answer(
            asked, await self._extender.within_quota(asked, is_one=is_one)
        )

    async def _write_answer(self, asked: NodeQuestion, verdict: NodeVerdict) -> bytes:
        return await self._extender.over_names(asked, partial(filter_answer, asked, verdict))

    async def _of_leader(
        self, request: web.Request, verb: str, asked: NodeQuestion, content: bytes
    ) -> bytes | None:
        """Return what the leader answers, or that it cannot be asked; None to answer here."""
        if self._ask_leader is None or not asked.wants_cards:
            return None
        path = f"{PREFIX}/{verb}{_ONE if _asks_for_one(request) else ''}"
        found = await self._ask_leader(path, content, request.headers)
        if found is not None:
            answered = AWAITED if isinstance(found, str) else FORWARDED
            self._extender.metrics.answers.labels(verb, answered).inc()
        if not isinstance(found, str):
            return found
        if verb == "prioritize":
            scores = [0] * len(asked.names)
            return await self._extender.over_names(asked, partial(priorities, asked, scores))
        return filter_answer(asked, NodeVerdict(error=f"topo-master: {found}; it is asked again"))


def _asks_for_one(request: web.Request) -> bool:
    """Return whether one node is to come out; raises `BadInputError` for another word."""
    asked = request.query.get("nodes")
    if asked not in {None, "one"}:
        fix = "write filterVerb: predicates, or predicates?nodes=one"
        raise BadInputError(Refusal(f"nodes is {asked!r}", "the query", fix))
    return asked is not None
