"""Errors of the HTTP APIs as `application/problem+json` (RFC 9457), with the field and the fix."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

import orjson
import structlog
from aiohttp import HttpVersion11, hdrs, web

from topo.kit.serving.body import CODINGS, TooLargeError, UnknownCodingError
from topo.model.errors import BadInputError, Refusal

CONTENT_TYPE = "application/problem+json"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = structlog.get_logger(__name__)

_MAX_LOGGED_CHARS = 200
_FIXES = {
    404: "see /openapi.json for the calls there are",
    405: "use a method of the Allow header",
    408: "send all of the body at once",
    503: "ask again after Retry-After",
}


def problem(
    status: int,
    detail: str,
    *,
    field: str = "",
    fix: str = "",
    headers: Mapping[str, str] | None = None,
    **extra: object,
) -> web.Response:
    """Return a problem document; `title` names the status, `field` and `fix` are optional."""
    body: dict[str, object] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    if field:
        body["field"] = field
    if fix:
        body["fix"] = fix
    body.update(extra)
    return web.Response(
        status=status, body=orjson.dumps(body), content_type=CONTENT_TYPE, headers=headers
    )


def refusal(
    status: int, refused: Refusal, *, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return a refusal as a problem document."""
    return problem(status, refused.what, field=refused.where, fix=refused.fix, headers=headers)


def bad_input(error: BadInputError) -> web.Response:
    """Return the answer to a caller's mistake: 400, 413 (body too large) or 415 (coding)."""
    if isinstance(error, TooLargeError):
        return refusal(413, error.refusal)
    if isinstance(error, UnknownCodingError):  # RFC 9110 15.5.16 wants the codings named
        return refusal(415, error.refusal, headers={"Accept-Encoding": ", ".join(CODINGS)})
    return refusal(400, error.refusal)


def mistake() -> web.Response:
    """Return the answer to a request on which this service failed; the log has the reason."""
    return problem(500, "this service made a mistake; its log says more", fix="report it")


async def answer_expectation(request: web.Request) -> web.Response | None:
    """Let the body come for `Expect: 100-continue`; return 417 for any other expectation.

    aiohttp asks this before the middlewares, and answers in plain text by itself.
    """
    if request.version < HttpVersion11:  # RFC 9110 10.1.1: to be ignored
        return None
    expected = request.headers.get(hdrs.EXPECT, "")
    if expected.lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer to come has sent nothing yet
        return None
    detail = f"Expect: {expected[:_MAX_LOGGED_CHARS]} is not known here"
    return problem(417, detail, field="Expect", fix="send 100-continue, or no such header")


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn exceptions of handlers into problem documents; log defects of this product."""
    try:
        return await handler(request)
    except BadInputError as error:
        return bad_input(error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        headers = {k: v for k, v in error.headers.items() if k in ("Allow", "Retry-After")}
        detail = error.text or error.reason
        if error.status in (404, 405):
            detail = f"{request.method} {request.path}: {error.reason}"
        return problem(error.status, detail, fix=_FIXES.get(error.status, ""), headers=headers)
    except Exception:  # noqa: BLE001 - one bad request must not hide behind a bare 500
        path = request.path[:_MAX_LOGGED_CHARS]
        _log.exception("request failed", method=request.method, path=path)
        return mistake()
