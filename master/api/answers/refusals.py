"""Refusals that calls share: an unknown name, no tree yet, no token to write, a full queue."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from master.booking.executors import QueueFullError
from master.service import SERVICE, Service
from topo.kit.serving.problem import problem
from topo.model.forest import Forest, Group
from topo.model.nearest import did_you_mean

RETRY_S = 1


def unknown_node(name: str, forest: Forest) -> web.Response:
    """Return the 404 for an unknown node with the nearest name. O(nodes): call it in a thread."""
    placed = [str(v.name) for _, v in forest.walk() if not isinstance(v, Group)]
    return _unknown("node", name, placed + [str(entry.node.name) for entry in forest.unplaced])


def unknown_group(name: str, forest: Forest) -> web.Response:
    """Return the 404 for an unknown group name or path with the nearest one. O(groups)."""
    groups = [(above, v) for above, v in forest.walk() if isinstance(v, Group)]
    paths = ["/".join((*above, g.name)) for above, g in groups]
    return _unknown("group", name, [str(g.name) for _, g in groups] + paths)


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
