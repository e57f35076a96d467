"""The port to which API servers send AdmissionReviews."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus

import structlog
from aiohttp import web

from master.admission.metrics import FAILED, UNREADABLE, AdmissionMetrics
from master.admission.reviews import Invalid, Reviewed, review
from topo.gangs.admission.outcome import Rules
from topo.kit.serving.body_reader import BodyLimits, BodyReader
from topo.kit.serving.problem import answer_expectation, problem, problems
from topo.model.errors import BadInputError

PATH = "/admission"
BY_LINKS_PATH = f"{PATH}/gpu-aware"
"""Where pods of namespaces are sent whose pods without a group get their nodes by links."""
MAX_BODY_BYTES = 4 << 20
"""An API server takes objects of up to 3 MiB. Source: k8s.io/apiserver, MaxRequestBodyBytes."""
CONNECTIONS = 1200
"""An API server has one HTTP/1.1 connection for each review in flight, and works on 600 requests at
once (`--max-requests-inflight` and `--max-mutating-requests-inflight`): these fit into the half
that may be in a handshake, and a connection that is closed leaves a pod without its gate. A hostile
client makes each cost 0.3 MB, and the chart's memory limit must hold them all."""
ANSWERS_BYTES = 16 << 20
BODIES_BYTES = 32 << 20
"""Reviews that are received or judged: a thousand pods of 30 kB. Any client may send them."""
MAX_VALUES = 200_000
"""JSON values of a review: of 3 MiB with the object before it, 20 bytes for each. So many take the
parser, which stops all threads, 35 ms; they become objects of 28 MiB at most."""
MAX_OBJECTS = 1 << 16
MAX_MEMBERS = 120_000
"""Members of objects: a job of 1.5 MiB and the one before it, 26 bytes for each."""
INLINE_BYTES = 64 << 10
"""A larger review, or one of more objects than `BodyLimits.inline_opened`, is judged in a thread,
one at a time."""
LIMITS = BodyLimits(
    max_bytes=MAX_BODY_BYTES,
    values=MAX_VALUES,
    objects=MAX_OBJECTS,
    members=MAX_MEMBERS,
    inline_bytes=INLINE_BYTES,
    waiting=CONNECTIONS,
    fix="give the object fewer templates, containers, labels and annotations",
)
LOOKS, LOOK_S = 20, 0.05
"""How often a pod is judged again whose PodGroup is not known: the watch may show it later."""

_log = structlog.get_logger(__name__)


def admission_app(
    rules: Callable[[], Rules],
    invalid: Invalid,
    metrics: AdmissionMetrics,
    clock: Callable[[], float] = time.perf_counter,
) -> web.Application:
    """Return the web application: reviews, answered by the current rules."""
    bodies = BodyReader(LIMITS, BODIES_BYTES)

    async def judged(content: bytes, path: str) -> Reviewed:
        now = replace(rules(), by_links=path == BY_LINKS_PATH)
        return await bodies.interpreted(content, partial(review, rules=now, invalid=invalid))

    async def post_review(request: web.Request) -> web.Response:
        try:
            async with bodies.read(request) as content:
                began_s = clock()
                reviewed = await _patiently(partial(judged, content, request.path))
        except (BadInputError, web.HTTPException):
            metrics.reviews.labels("other", UNREADABLE).inc()
            raise
        except Exception:  # noqa: BLE001 - the API server goes by its failurePolicy
            metrics.reviews.labels("other", FAILED).inc()
            _log.exception("a review failed")
            what = "this webhook made a mistake; its log says more"
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, what, fix="report it")
        metrics.seconds.observe(clock() - began_s)
        metrics.reviews.labels(reviewed.kind, reviewed.result).inc()
        if not reviewed.answer:
            what = "no groups of nodes are known, or not yet, and a native job needs them"
            fix = "try again in a moment; `topo doctor` says what is waited for"
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, what, fix=fix)
        return web.Response(body=reviewed.answer, content_type="application/json")

    app = web.Application(middlewares=[problems], client_max_size=MAX_BODY_BYTES)
    for path in (PATH, BY_LINKS_PATH):
        app.router.add_post(path, post_review, expect_handler=answer_expectation)
    return app


async def _patiently(judge: Callable[[], Awaitable[Reviewed]]) -> Reviewed:
    """Return what was judged, again where what it names may have been created just before."""
    found = await judge()
    for _ in range(LOOKS):
        if not found.is_awaited:
            break
        await asyncio.sleep(LOOK_S)
        found = await judge()
    return found
