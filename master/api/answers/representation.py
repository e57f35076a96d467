"""JSON answers, conditional and compressed: RFC 9110, 8.8.3 (ETag), 12.5.3 and 13.1.2."""

from collections.abc import Mapping
from typing import Literal

from aiohttp import web

CACHED = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
"""Headers of an answer that a client may keep, if it asks each time whether it is still good."""
_ANY_TAG = "*"


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
