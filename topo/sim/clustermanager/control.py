"""The control port of the simulated cluster manager: faults and changes of its world.

It listens on loopback only, with a token of its own that lies in the simulator's directory; the
contract's API knows nothing of it.

| call | what |
|---|---|
| `GET /state` | faults in force, logins, requests by path, cursor |
| `PUT /faults` `{"kind": …}`, `DELETE /faults`, `DELETE /faults/{kind}` | break, heal |
| `PUT`, `PATCH`, `DELETE /machines/{id}` | add, change or move, remove |
| `PUT`, `PATCH`, `DELETE /groups/{id}` | add, rename, remove |
| `DELETE /tokens` | revoke every token |
| `DELETE /events` | forget the log, so that every cursor is gone |
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import orjson
from aiohttp import web
from pydantic import ValidationError

from topo.discovery.manager.contract import GroupRow, MachineRow, refusal_of
from topo.kit.serving.problem import Handler, problem, refusal
from topo.kit.tokens import bearer
from topo.sim.clustermanager.api import CALLS, INVENTORY, SESSIONS, json_answer
from topo.sim.clustermanager.faults import (
    CERTIFICATE_FAULTS,
    FAULTS,
    ManagerFault,
    ManagerFaultKind,
)
from topo.sim.clustermanager.inventory import machine_document

TOKEN_FILE = "control.token"  # noqa: S105 - the name of a file
READY_FILE = "ready.json"
_TOKEN = web.AppKey("token", str)
_API = web.AppKey("api", web.Application)
Present = Callable[[ManagerFaultKind | None], None]
_PRESENT: web.AppKey[Present] = web.AppKey("present")


def build_control(api: web.Application, token: str, present: Present) -> web.Application:
    """Return the control API of a simulator's `api`.

    `present` makes the server show the certificate of that fault, or the good one for None.
    """
    app = web.Application(middlewares=[_authenticate], client_max_size=1 << 20)
    app[_TOKEN] = token
    app[_API] = api
    app[_PRESENT] = present
    app.router.add_get("/state", _state)
    app.router.add_put("/faults", _break)
    app.router.add_delete("/faults", _heal)
    app.router.add_delete("/faults/{kind}", _heal)
    for method in ("PUT", "PATCH", "DELETE"):
        app.router.add_route(method, "/{section:machines|groups}/{id}", _edit)
    app.router.add_delete("/tokens", _revoke)
    app.router.add_delete("/events", _forget)
    return app


@web.middleware
async def _authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
    token = bearer(request.headers) or ""
    if not hmac.compare_digest(token.encode(), request.app[_TOKEN].encode()):
        return problem(401, "the control token is wrong", fix=f"it is in the file {TOKEN_FILE}")
    try:
        return await handler(request)
    except ValidationError as error:
        return refusal(400, refusal_of(error))
    except (orjson.JSONDecodeError, TypeError) as error:
        return problem(400, f"the body is not what this call takes: {error}")


async def _state(request: web.Request) -> web.StreamResponse:
    api = request.app[_API]
    return json_answer(
        {
            "faults": [fault.model_dump(mode="json") for fault in api[FAULTS].active],
            "logins": api[SESSIONS].logins,
            "requests": api[CALLS],
            "cursor": api[INVENTORY].cursor,
        }
    )


async def _break(request: web.Request) -> web.StreamResponse:
    fault = ManagerFault.model_validate_json(await request.read())
    request.app[_API][FAULTS].set(fault)
    if fault.kind in CERTIFICATE_FAULTS:
        request.app[_PRESENT](fault.kind)
    return await _state(request)


async def _heal(request: web.Request) -> web.StreamResponse:
    name = request.match_info.get("kind")
    if name is not None and name not in tuple(ManagerFaultKind):
        return problem(
            404, f"no fault is called {name!r}", fix=f"one of {', '.join(ManagerFaultKind)}"
        )
    faults = request.app[_API][FAULTS]
    faults.heal(None if name is None else ManagerFaultKind(name))
    if not CERTIFICATE_FAULTS & {fault.kind for fault in faults.active}:
        request.app[_PRESENT](None)
    return await _state(request)


async def _edit(request: web.Request) -> web.StreamResponse:
    """Puts, patches or deletes one row of `machines` or `groups`."""
    section, key = request.match_info["section"], request.match_info["id"]
    model, document = _SECTIONS[section]
    inventory = request.app[_API][INVENTORY]
    rows = getattr(inventory.topology, section)
    known = next((row for row in rows if row.id == key), None)
    if known is None and request.method != "PUT":
        ids = ", ".join(row.id for row in rows[:20])
        return problem(404, f"{section} has no {key!r}", field="id", fix=f"there are {ids}")
    left = tuple(row for row in rows if row.id != key)
    if request.method != "DELETE":
        base = document(known) if request.method == "PATCH" else {}
        change = orjson.loads(await request.read())
        left = (*left, model.model_validate({**base, **change, "id": key}).value())
    refused = inventory.replace(replace(inventory.topology, **{section: left}))
    return await _state(request) if refused is None else refusal(409, refused)


async def _revoke(request: web.Request) -> web.StreamResponse:
    request.app[_API][SESSIONS].revoke()
    return await _state(request)


async def _forget(request: web.Request) -> web.StreamResponse:
    request.app[_API][INVENTORY].forget_events()
    return await _state(request)


_SECTIONS: Mapping[str, tuple[type[MachineRow | GroupRow], Callable[[Any], dict[str, Any]]]] = {
    "machines": (MachineRow, machine_document),
    "groups": (GroupRow, asdict),
}
