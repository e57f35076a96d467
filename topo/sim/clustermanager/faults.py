"""Faults on demand: what can go wrong between a cluster manager and us, as values and acts.

A fault is set through the control port (`topo.sim.clustermanager.control`), never through the
contract's API, and strikes requests of the contract's API only.
"""

import asyncio
import datetime as dt
import gzip
from collections.abc import Awaitable, Callable, Mapping
from email.utils import format_datetime
from enum import StrEnum
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from topo.kit.serving.problem import Handler, problem

_CHUNK = b" " * 65536


class ManagerFaultKind(StrEnum):
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


CERTIFICATE_FAULTS = frozenset(
    {ManagerFaultKind.EXPIRED_CERTIFICATE, ManagerFaultKind.OTHER_HOST_CERTIFICATE}
)


class ManagerFault(BaseModel):
    """One fault: strikes requests whose path starts with `path`, `times` of them (None: all).

    `seconds` is the length of a stall, of a drip's pause, of a clock skew, or the Retry-After of
    `busy`; `size_bytes` the length of an oversize answer; `to` and `status` make a redirect.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ManagerFaultKind
    path: str = "/"
    times: Annotated[int, Field(ge=1)] | None = None
    seconds: Annotated[float, Field(gt=-1e9, lt=1e9)] = 3600.0
    size_bytes: Annotated[int, Field(ge=1, le=1 << 34)] = 1 << 30
    to: str = "https://elsewhere.invalid/v1/topology"
    status: Annotated[int, Field(ge=300, le=308)] = 307


class Faults:
    """The faults in force, at most one per kind."""

    def __init__(self) -> None:
        self._active: dict[ManagerFaultKind, ManagerFault] = {}

    @property
    def active(self) -> tuple[ManagerFault, ...]:
        """What is in force now, `times` counted down."""
        return tuple(self._active.values())

    def set(self, fault: ManagerFault) -> None:
        """Put a fault in force, in place of an earlier one of its kind."""
        self._active[fault.kind] = fault

    def heal(self, kind: ManagerFaultKind | None = None) -> None:
        """End the fault of that kind, or all."""
        if kind is None:
            self._active.clear()
        else:
            self._active.pop(kind, None)

    def strike(self, path: str) -> ManagerFault | None:
        """Return the first fault that strikes this request; counts it."""
        for fault in self._active.values():
            if path.startswith(fault.path) and fault.kind not in CERTIFICATE_FAULTS:
                self._count(fault)
                return fault
        return None

    def _count(self, fault: ManagerFault) -> None:
        if fault.times is None:
            return
        if fault.times == 1:
            del self._active[fault.kind]
        else:
            self._active[fault.kind] = fault.model_copy(update={"times": fault.times - 1})


FAULT = web.RequestKey("fault", ManagerFault)
FAULTS = web.AppKey("faults", Faults)


@web.middleware
async def inject(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Serve the request, spoilt by the fault that strikes it, if any does."""
    try:
        return await _spoilt(request, handler)
    except ConnectionError:  # the caller did not wait for the rest of a spoilt answer
        _abort(request)
        return web.Response(status=500)


async def _spoilt(request: web.Request, handler: Handler) -> web.StreamResponse:
    fault = request.app[FAULTS].strike(request.path)
    if fault is None:
        return await handler(request)
    if fault.kind is ManagerFaultKind.STALL:
        await asyncio.sleep(fault.seconds)
    if (answer := _ANSWERS.get(fault.kind)) is not None:
        return answer(fault)
    if fault.kind is ManagerFaultKind.RESET:
        _abort(request)
        return web.Response(status=500)
    if fault.kind is ManagerFaultKind.OVERSIZE:
        return await _oversize(request, fault)
    request[FAULT] = fault
    response = await handler(request)
    spoil = _SPOILT.get(fault.kind)
    if spoil is None or not isinstance(response, web.Response):
        return response
    return await spoil(request, fault, response)


async def _oversize(request: web.Request, fault: ManagerFault) -> web.StreamResponse:
    response = web.StreamResponse(headers=_JSON)
    await response.prepare(request)
    for _ in range(0, fault.size_bytes, len(_CHUNK)):
        await response.write(_CHUNK)
    return response


async def _cut(
    request: web.Request, _fault: ManagerFault, answer: web.Response
) -> web.StreamResponse:
    body = _body(answer)
    response = await _begin_response(request, len(body))
    await response.write(body[: len(body) // 2])
    _abort(request)
    return response


async def _drip(
    request: web.Request, fault: ManagerFault, answer: web.Response
) -> web.StreamResponse:
    body = _body(answer)
    response = await _begin_response(request, len(body))
    for at in range(len(body)):
        await response.write(body[at : at + 1])
        await asyncio.sleep(fault.seconds)
    return response


async def _begin_response(request: web.Request, length: int) -> web.StreamResponse:
    """Return an answer of which the headers are sent, and nothing of its body yet."""
    response = web.StreamResponse(headers={**_JSON, "Content-Length": str(length)})
    await response.prepare(request)
    return response


async def _clock_skew(
    _request: web.Request, fault: ManagerFault, answer: web.Response
) -> web.StreamResponse:
    wrong = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=fault.seconds)
    answer.headers["Date"] = format_datetime(wrong, usegmt=True)
    return answer


def _busy(fault: ManagerFault) -> web.Response:
    retry_after = {"Retry-After": str(max(0, round(fault.seconds)))}
    return problem(503, "too many clients", headers=retry_after)


def _bomb(fault: ManagerFault) -> web.Response:
    packed = gzip.compress(bytes(min(fault.size_bytes, 1 << 28)), compresslevel=6)
    return web.Response(body=packed, headers={**_JSON, "Content-Encoding": "gzip"})


def _body(answer: web.Response) -> bytes:
    return answer.body if isinstance(answer.body, bytes) else b""


def _abort(request: web.Request) -> None:
    """End the connection without the goodbye of TLS, as a crashed peer does."""
    if request.transport is not None:
        request.transport.abort()


_JSON = {"Content-Type": "application/json"}
_ANSWERS: Mapping[ManagerFaultKind, Callable[[ManagerFault], web.Response]] = {
    ManagerFaultKind.UNAUTHORIZED: lambda _: problem(401, "the token is not known"),
    ManagerFaultKind.ERROR: lambda _: problem(500, "the data base is on fire"),
    ManagerFaultKind.BUSY: _busy,
    ManagerFaultKind.GARBAGE: lambda _: web.Response(
        body=b'{"cursor": "x", "machines": [\xff\xfe<html>', headers=_JSON
    ),
    ManagerFaultKind.CURSOR_GONE: lambda _: problem(
        410, "the cursor is gone", fix="GET /v1/topology"
    ),
    ManagerFaultKind.REDIRECT: lambda fault: web.Response(
        status=fault.status, headers={"Location": fault.to}
    ),
    ManagerFaultKind.BOMB: _bomb,
}
"""What is answered instead."""
_SPOILT: Mapping[
    ManagerFaultKind,
    Callable[[web.Request, ManagerFault, web.Response], Awaitable[web.StreamResponse]],
] = {
    ManagerFaultKind.CUT: _cut,
    ManagerFaultKind.DRIP: _drip,
    ManagerFaultKind.CLOCK_SKEW: _clock_skew,
}
"""What becomes of the right answer."""
