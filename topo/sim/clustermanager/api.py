"""The contract's API (docs/cluster-manager.openapi.yaml) as the simulated manager serves it."""

import hmac
import secrets
import time
from collections import Counter
from collections.abc import Callable
from typing import Annotated

import orjson
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from topo.discovery.manager.contract import refusal_of
from topo.kit.serving.problem import Handler, problem, refusal
from topo.kit.tokens import bearer
from topo.sim.clustermanager.faults import FAULT, FAULTS, Faults, ManagerFaultKind, inject
from topo.sim.clustermanager.inventory import Inventory

MAX_TOKENS = 1000
MAX_PAGE = 1000


class LoginSessions:
    """Tokens that the one user was given, and when they end (`clock`); the oldest goes first."""

    def __init__(
        self,
        username: str,
        password: str,
        ttl_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._username, self._password = username.encode(), password.encode()
        self.ttl_s = ttl_s
        self.logins = 0
        self._clock = clock
        self._ends: dict[str, float] = {}

    def login(self, username: str, password: str) -> str | None:
        """Return a fresh token, or None for a wrong name or password."""
        right = hmac.compare_digest(username.encode(), self._username)
        right &= hmac.compare_digest(password.encode(), self._password)
        if not right:
            return None
        while len(self._ends) >= MAX_TOKENS:
            del self._ends[next(iter(self._ends))]
        token = secrets.token_urlsafe(24)
        self._ends[token] = self._clock() + self.ttl_s
        self.logins += 1
        return token

    def valid(self, token: str) -> bool:
        """Return whether the token was given, has not ended and was not revoked."""
        return self._ends.get(token, 0.0) > self._clock()

    def revoke(self) -> None:
        """End every token now."""
        self._ends.clear()


class _Login(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    username: Annotated[str, Field(max_length=256)]
    password: Annotated[str, Field(max_length=1024)]


INVENTORY = web.AppKey("inventory", Inventory)
SESSIONS = web.AppKey("sessions", LoginSessions)
CALLS: web.AppKey[Counter[str]] = web.AppKey("calls", Counter)
"""How often each path was asked, for those who watch."""


def build_api(inventory: Inventory, sessions: LoginSessions, faults: Faults) -> web.Application:
    """Return the contract's API over these; does no I/O."""
    app = web.Application(middlewares=[_count, inject, _authenticate], client_max_size=16 * 1024)
    app[INVENTORY] = inventory
    app[SESSIONS] = sessions
    app[FAULTS] = faults
    app[CALLS] = Counter()
    app.router.add_post("/v1/login", _login)
    app.router.add_get("/v1/topology", _topology)
    app.router.add_get("/v1/events", _events)
    app.router.add_get("/v1/health", _health)
    return app


@web.middleware
async def _count(request: web.Request, handler: Handler) -> web.StreamResponse:
    resource = request.match_info.route.resource
    if resource is not None:
        request.app[CALLS][resource.canonical] += 1
    return await handler(request)


@web.middleware
async def _authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path in ("/v1/login", "/v1/health"):
        return await handler(request)
    token = bearer(request.headers)
    if token is None or not request.app[SESSIONS].valid(token):
        return problem(
            401,
            "the token is absent, unknown or has ended",
            fix="POST /v1/login",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return await handler(request)


async def _login(request: web.Request) -> web.StreamResponse:
    try:
        login = _Login.model_validate_json(await request.read())
    except ValidationError as error:
        return refusal(400, refusal_of(error))
    sessions = request.app[SESSIONS]
    token = sessions.login(login.username, login.password)
    if token is None:
        return problem(401, "the user name or the password is wrong")
    return json_answer({"token": token, "expires_in_s": sessions.ttl_s})


async def _topology(request: web.Request) -> web.StreamResponse:
    document = request.app[INVENTORY].document()
    fault = request.get(FAULT)
    if fault is not None and fault.kind is ManagerFaultKind.EMPTY:
        document["machines"] = []
    if fault is not None and fault.kind is ManagerFaultKind.HALF:
        machines = document["machines"]
        if isinstance(machines, list):
            document["machines"] = machines[: len(machines) // 2]
    return json_answer(document)


async def _events(request: web.Request) -> web.StreamResponse:
    limit = request.query.get("limit", str(MAX_PAGE))
    if not limit.isdecimal() or len(limit) > 4 or not 1 <= int(limit) <= MAX_PAGE:
        return problem(400, f"limit is a number from 1 to {MAX_PAGE}", field="limit")
    if "cursor" not in request.query:
        return problem(400, "cursor is missing", field="cursor", fix="GET /v1/topology gives one")
    page = request.app[INVENTORY].events(request.query["cursor"], int(limit))
    if page is None:
        return problem(410, "the cursor is gone", field="cursor", fix="GET /v1/topology")
    return json_answer(page)


async def _health(_request: web.Request) -> web.StreamResponse:
    return json_answer({"status": "ok", "detail": ""})


def json_answer(document: object) -> web.Response:
    """200 with the document."""
    return web.Response(body=orjson.dumps(document), content_type="application/json")
