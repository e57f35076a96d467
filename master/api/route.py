"""One call of the API as a value, and how the calls are registered, checked and counted."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from master.api.answers import forbidden
from master.api.requests.reading import Parameter, Query, read_query
from master.role import not_leader
from master.service import SERVICE
from topo.kit.serving.problem import answer_expectation
from topo.model.rest.document import build_body_validators

Handler = Callable[[web.Request, Query], Awaitable[web.StreamResponse]]
When = Literal["never", "sometimes", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One call. `document` is the type of the good answer, `problems` say when there is another.

    `links` say, by the id of another call, where the good answer has its parameters.
    `also` are further paths of the same call, `other_media` further types of the good answer, which
    are no JSON.

    `media` is the content type of the good answer, `body` the type of what is sent. Where
    it always `writes`, the handler is reached neither without a token that may write nor on a
    follower. Sometimes: the handler decides.
    """

    path: str
    handler: Handler
    summary: str
    tag: Literal["topology", "placements", "service"]
    method: Literal["GET", "POST", "DELETE"] = "GET"
    document: Any = None
    body: Any = None
    writes: When = "never"
    media: str = "application/json"
    parameters: tuple[Parameter, ...] = ()
    problems: Mapping[int, str] = field(default_factory=dict)
    conditional: bool = False
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    other_media: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths of the call, its own first."""
        return (self.path, *self.also)


def add_routes(app: web.Application, routes: tuple[Route, ...]) -> None:
    """Register the routes of the table.

    HEAD comes with every GET that ends.
    """
    build_body_validators()
    for route, path in [(each, path) for each in routes for path in each.paths]:
        resource, endpoint = app.router.add_resource(path), _endpoint(route)
        methods: list[str] = [route.method]
        if route.method == "GET" and route.media != "text/event-stream":
            methods.append("HEAD")
        for method in methods:
            resource.add_route(method, endpoint, expect_handler=answer_expectation)


def _endpoint(route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def endpoint(request: web.Request) -> web.StreamResponse:
        if route.writes == "always" and (refused := forbidden(request)) is not None:
            return refused
        replica = request.app[SERVICE].replica
        if route.writes == "always" and not replica.serves:
            return not_leader(replica.role)
        return await route.handler(request, read_query(request, route.parameters))

    return endpoint


@web.middleware
async def count_answers(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Count every answer under its route's template; paths without a route share one label."""
    answer = await handler(request)
    resource = request.match_info.route.resource
    route = resource.canonical if resource is not None else "none"
    requests = request.app[SERVICE].metrics.requests
    requests.labels(route, _method(request.method), str(answer.status)).inc()
    return answer


def _method(method: str) -> str:
    return method if method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS") else "other"
