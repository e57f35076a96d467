"""The web page: `/` for browsers, its files, and the plain list without scripts."""

from aiohttp import web

from master.api.answers import CACHED, accepted_encoding, has_known_tag, not_acceptable
from master.api.health import get_index
from master.api.requests.reading import Parameter, Query
from master.service import SERVICE
from master.web.files import INDEX, PageFile, page
from topo.kit.serving.problem import problem
from topo.kit.threads import off_loop

SHOWN = (
    Parameter("at", "string", "the moment that the page shows; without it what is now"),
    Parameter("with", "string", "the moment that it is compared with; without it what is now"),
    Parameter("lang", "string", "the language that it speaks: en or zh"),
)
FILE = (
    Parameter("release", "string", "of the page that names the file", max_chars=64, place="path"),
    Parameter("file", "string", "one of the page's own", max_chars=64, place="path"),
)
# Nothing but the master's own files and answers, and no text becomes markup by a script.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_SAFE = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_FOR_GOOD = "public, max-age=31536000, immutable"


async def get_root(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with the page where `Accept` names HTML, else with the index of the service."""
    if "text/html" not in request.headers.get("Accept", ""):
        answer = await get_index(request, query)
        answer.headers["Vary"] = "Accept"
        return answer
    found = await off_loop(page)
    headers = {**CACHED, "Vary": "Accept, Accept-Encoding", "ETag": f'W/"{found.release}"'}
    if has_known_tag(request.headers.get("If-None-Match"), found.release):
        return web.Response(status=304, headers={**_SAFE, **headers})
    return _sent(request, found.files[INDEX], headers)


async def get_file(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with a file of the page; caches keep it only under the name of this release."""
    found = await off_loop(page)
    if (file := found.files.get(query["file"])) is None:
        return problem(404, "the page has no such file", field="file", fix="load the page again")
    keep = _FOR_GOOD if query["release"] == found.release else "no-store"
    return _sent(request, file, {"Cache-Control": keep, "Vary": "Accept-Encoding"})


async def get_plain(request: web.Request, _query: Query) -> web.StreamResponse:
    """Answer with the plain list; it is made again when the tree differs and after a second."""
    cache = request.app[SERVICE].documents.plain
    made = await cache.document()
    headers = {**CACHED, "ETag": f'W/"{made.tag}"'}
    if has_known_tag(request.headers.get("If-None-Match"), made.tag):
        return web.Response(status=304, headers={**_SAFE, **headers})
    zipped = await cache.compressed(made)
    return _sent(request, PageFile("text/html", made.body, zipped), headers)


def _sent(request: web.Request, file: PageFile, headers: dict[str, str]) -> web.Response:
    taken = accepted_encoding(request.headers.get("Accept-Encoding"))
    if taken is None:
        return not_acceptable()
    coded = {"Content-Encoding": "gzip"} if taken == "gzip" else {}
    return web.Response(
        body=file.zipped if taken == "gzip" else file.body,
        headers={**_SAFE, **headers, **coded},
        content_type=file.media,
        charset="utf-8",
    )
