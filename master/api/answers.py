"""Answers that calls share: JSON, conditional and compressed, and refusals with their fix.

RFC 9110, 8.8.3 (ETag), 12.5.3 and 13.1.2. Refused are an unknown name, a call before the tree is
known or without a token to write, and one caller too many.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from aiohttp import web

from master.service import SERVICE, Service
from topo.kit.executors import QueueFullError
from topo.kit.serving.problem import problem
from topo.model.forest import Forest
from topo.model.nearest import did_you_mean

RETRY_S = 1
CACHED = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
"""Headers of an answer that a client may keep, if it asks each time whether it is still good."""
_ANY_TAG = "*"


def unknown_node(name: str, forest: Forest) -> web.Response:
    """Return the 404 for an unknown node with the nearest name. O(nodes): call it in a thread."""
    return _unknown("node", name, [str(node.name) for node in forest.nodes()])


def unknown_group(name: str, forest: Forest) -> web.Response:
    """Return the 404 for an unknown group name or path with the nearest one. O(groups)."""
    paths = [path for path, _ in forest.groups()]
    names = [str(path[-1]) for path in paths]
    return _unknown("group", name, names + ["/".join(path) for path in paths])


def _unknown(what: str, name: str, known: list[str]) -> web.Response:
    fix = did_you_mean(name, known, "GET /v1/topology lists what there is")
    return problem(404, f"there is no {what} {name!r}", field=what, fix=fix)


def not_ready(service: Service, missing: tuple[str, ...]) -> web.Response:
    """Return the 503 before the tree may be shown: why, and when to ask again."""
    return problem(
        503,
        "the tree is not complete yet: " + "; ".join(missing),
        fix="ask again in a moment; GET /v1/topology shows what is known so far",
        headers={"Retry-After": "1"},
        reasons=list(missing),
        mode=service.settings.mode.value,
    )


def forbidden(request: web.Request) -> web.Response | None:
    """Return the refusal of a caller that may not write, None for one that may."""
    writers = request.app[SERVICE].port_tokens.writers
    if writers.identify(request) is not None:
        return None
    if writers.tokens is None:
        return problem(
            403,
            "nothing may be written here: the master has no tokens of writers",
            field="Authorization",
            fix="give it --api-token-file; the chart: topoDiscovery.master.apiTokensSecret",
        )
    return problem(
        401,
        "the call carries no token that is known here",
        field="Authorization",
        fix="send `Authorization: Bearer` with a token of --api-token-file",
        headers={"WWW-Authenticate": "Bearer"},
    )


def not_acceptable() -> web.Response:
    """Return the 406 for a client that takes neither gzip nor identity."""
    return problem(
        406,
        "the answer is there plain and as gzip, and Accept-Encoding rules out both",
        field="Accept-Encoding",
        fix="accept gzip or identity",
        headers={"Vary": "Accept-Encoding"},
    )


async def wait_for_loop(request: web.Request) -> None:
    """Wait until the caller may work on the event loop; raise 503 when too many wait."""
    with refuse_when_full():
        await request.app[SERVICE].placements.planner.loop_queue.acquire()


@contextmanager
def refuse_when_full() -> Iterator[None]:
    """Turn `QueueFullError` into a 503 with `Retry-After`."""
    try:
        yield
    except QueueFullError:
        text = "too many calls of this kind wait already"
        headers = {"Retry-After": str(RETRY_S)}
        raise web.HTTPServiceUnavailable(text=text, headers=headers) from None


def json_response(
    body: bytes, headers: Mapping[str, str] | None = None, *, zipped: bool = False
) -> web.Response:
    """Return the answer 200 with these bytes of JSON; `zipped` says that they are gzip."""
    coded = {"Content-Encoding": "gzip"} if zipped else {}
    return web.Response(
        body=body, headers={**(headers or {}), **coded}, content_type="application/json"
    )


def accepted_encoding(accept_encoding: str | None) -> Literal["gzip", "identity"] | None:
    """Return what the client accepts: gzip if named or `*`, else identity, None for neither.

    `q=0` rules out, and what is named beats `*`.
    """
    weights: dict[str, bool] = {}
    for part in (accept_encoding or "").split(","):
        name, _, parameters = part.partition(";")
        weights[name.strip().lower()] = _wanted(parameters)
    others = weights.get("*")
    if weights.get("gzip", weights.get("x-gzip", others or False)):
        return "gzip"
    return "identity" if weights.get("identity", others is not False) else None


def _wanted(parameters: str) -> bool:
    name, _, value = parameters.strip().partition("=")
    if name.strip().lower() != "q":
        return True
    try:
        return float(value) > 0
    except ValueError:
        return False


def has_known_tag(if_none_match: str | None, *tags: str) -> bool:
    """Return whether the client's `If-None-Match` names one of our tags (compared weakly)."""
    if if_none_match is None:
        return False
    for part in if_none_match.split(","):
        tag = part.strip().removeprefix("W/")
        if tag == _ANY_TAG or tag.strip('"') in tags:
            return True
    return False
