"""Faults on demand: what can go wrong between a cluster manager and us, as values and acts.

A fault is set through the control port (`topo.sim.clustermanager.control`), never through the
contract's API, and strikes requests of the contract's API only.
"""

import asyncio
import datetime as dt
import gzip
from collections.abc import Awaitable, Callable
from email.utils import format_datetime
from enum import StrEnum
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from topo.kit.problem import problem

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_CHUNK = b" " * 65536


class FaultKind(StrEnum):
    """What goes wrong; see docs/cluster-manager.md for what the master makes of each."""

    UNAUTHORIZED = "unauthorized"
    ERROR = "error"
    BUSY = "busy"
    STALL = "stall"
    RESET = "reset"
    CUT = "cut"
    GARBAGE = "garbage"
    EMPTY = "empty"
    HALF = "half"
    REDIRECT = "redirect"
    OVERSIZE = "oversize"
    BOMB = "bomb"
    DRIP = "drip"
    CURSOR_GONE = "cursor-gone"
    CLOCK_SKEW = "clock-skew"
    EXPIRED_CERTIFICATE = "expired-certificate"
    OTHER_HOST_CERTIFICATE = "other-host-certificate"


CERTIFICATE_FAULTS = frozenset({FaultKind.EXPIRED_CERTIFICATE, FaultKind.OTHER_HOST_CERTIFICATE})


class Fault(BaseModel):
    """One fault: strikes requests whose path starts with `path`, `times` of them (None: all).

    `seconds` is the length of a stall, of a drip's pause, of a clock skew, or the Retry-After of
    `busy`; `size_bytes` the length of an oversize answer; `to` and `status` make a redirect.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: FaultKind
    path: str = "/"
    times: Annotated[int, Field(ge=1)] | None = None
    seconds: Annotated[float, Field(gt=-1e9, lt=1e9)] = 3600.0
    size_bytes: Annotated[int, Field(ge=1, le=1 << 34)] = 1 << 30
    to: str = "https://elsewhere.invalid/v1/topology"
    status: Annotated[int, Field(ge=300, le=308)] = 307


class Faults:
    """The faults in force, at most one per kind."""

    def __init__(self) -> None:
        self._active: dict[FaultKind, Fault] = {}

    @property
    def active(self) -> tuple[Fault, ...]:
        """What is in force now, `times` counted down."""
        return tuple(self._active.values())

    def set(self, fault: Fault) -> None:
        """Puts a fault in force, in place of an earlier one of its kind."""
        self._active[fault.kind] = fault

    def heal(self, kind: FaultKind | None = None) -> None:
        """Ends the fault of that kind, or all."""
        if kind is None:
            self._active.clear()
        else:
            self._active.pop(kind, None)

    def strike(self, path: str) -> Fault | None:
        """The first fault that strikes this request; counts it."""
        for fault in self._active.values():
            if path.startswith(fault.path) and fault.kind not in CERTIFICATE_FAULTS:
                self._count(fault)
                return fault
        return None

    def _count(self, fault: Fault) -> None:
        if fault.times is None:
            return
        if fault.times == 1:
            del self._active[fault.kind]
        else:
            self._active[fault.kind] = fault.model_copy(update={"times": fault.times - 1})


FAULT = web.RequestKey("fault", Fault)
FAULTS = web.AppKey("faults", Faults)


@web.middleware
async def inject(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Serves the request, spoilt by the fault that strikes it, if any does."""
    fault = request.app[FAULTS].strike(request.path)
    if fault is None:
        return await handler(request)
    if fault.kind is FaultKind.STALL:
        await asyncio.sleep(fault.seconds)
    before = _INSTEAD.get(fault.kind)
    if before is not None:
        return await before(request, fault)
    request[FAULT] = fault
    response = await handler(request)
    after = _SPOILT.get(fault.kind)
    if after is None or not isinstance(response, web.Response):
        return response
    return await after(request, fault, response)


async def _unauthorized(_request: web.Request, _fault: Fault) -> web.StreamResponse:
    return problem(401, "the token is not known")


async def _error(_request: web.Request, _fault: Fault) -> web.StreamResponse:
    return problem(500, "the data base is on fire")


async def _busy(_request: web.Request, fault: Fault) -> web.StreamResponse:
    retry_after = {"Retry-After": str(max(0, round(fault.seconds)))}
    return problem(503, "too many clients", headers=retry_after)


async def _reset(request: web.Request, _fault: Fault) -> web.StreamResponse:
    _abort(request)
    return web.Response(status=500)


async def _garbage(_request: web.Request, _fault: Fault) -> web.StreamResponse:
    return web.Response(body=b'{"cursor": "x", "machines": [\xff\xfe<html>', headers=_JSON)


async def _cursor_gone(_request: web.Request, _fault: Fault) -> web.StreamResponse:
    return problem(410, "the cursor is gone", fix="GET /v1/topology")


async def _redirect(_request: web.Request, fault: Fault) -> web.StreamResponse:
    return web.Response(status=fault.status, headers={"Location": fault.to})


async def _oversize(request: web.Request, fault: Fault) -> web.StreamResponse:
    response = web.StreamResponse(headers=_JSON)
    await response.prepare(request)
    for _ in range(0, fault.size_bytes, len(_CHUNK)):
        await response.write(_CHUNK)
    return response


async def _bomb(_request: web.Request, fault: Fault) -> web.StreamResponse:
    packed = gzip.compress(bytes(min(fault.size_bytes, 1 << 28)), compresslevel=6)
    return web.Response(body=packed, headers={**_JSON, "Content-Encoding": "gzip"})


async def _cut(request: web.Request, _fault: Fault, answer: web.Response) -> web.StreamResponse:
    body = _body(answer)
    response = web.StreamResponse(headers={**_JSON, "Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    _abort(request)
    return response


async def _drip(request: web.Request, fault: Fault, answer: web.Response) -> web.StreamResponse:
    body = _body(answer)
    response = web.StreamResponse(headers={**_JSON, "Content-Length": str(len(body))})
    await response.prepare(request)
    for at in range(len(body)):
        await response.write(body[at : at + 1])
        await asyncio.sleep(fault.seconds)
    return response


async def _clock_skew(
    _request: web.Request, fault: Fault, answer: web.Response
) -> web.StreamResponse:
    wrong = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=fault.seconds)
    answer.headers["Date"] = format_datetime(wrong, usegmt=True)
    return answer


def _body(answer: web.Response) -> bytes:
    return answer.body if isinstance(answer.body, bytes) else b""


def _abort(request: web.Request) -> None:
    """Ends the connection without the goodbye of TLS, as a crashed peer does."""
    if request.transport is not None:
        request.transport.abort()


_JSON = {"Content-Type": "application/json"}
_INSTEAD: dict[FaultKind, Callable[[web.Request, Fault], Awaitable[web.StreamResponse]]] = {
    FaultKind.UNAUTHORIZED: _unauthorized,
    FaultKind.ERROR: _error,
    FaultKind.BUSY: _busy,
    FaultKind.RESET: _reset,
    FaultKind.GARBAGE: _garbage,
    FaultKind.CURSOR_GONE: _cursor_gone,
    FaultKind.REDIRECT: _redirect,
    FaultKind.OVERSIZE: _oversize,
    FaultKind.BOMB: _bomb,
}
_SPOILT: dict[
    FaultKind, Callable[[web.Request, Fault, web.Response], Awaitable[web.StreamResponse]]
] = {
    FaultKind.CUT: _cut,
    FaultKind.DRIP: _drip,
    FaultKind.CLOCK_SKEW: _clock_skew,
}
