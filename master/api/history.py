"""The past: `GET /v1/topology/diff`, `GET /v1/history`, the tree and the findings of a moment.

The last changes are remembered one by one: a difference of generations among
them is exact. What is older, of an earlier run, or asked for by time is that of kept moments.
"""

import asyncio
import gzip
from collections.abc import Callable, Sequence
from functools import partial

import orjson
from aiohttp import web

from master.api.answers import CACHED, has_known_tag, json_response, refuse_when_full
from master.api.events.step_events import change_document
from master.api.requests.reading import Parameter, Query
from master.api.requests.tree_part import find_fabric, find_tree_part
from master.service import SERVICE, Service
from master.tree import findings, topology_document
from master.tree.document_cache import GZIP_LEVEL
from master.tree.history import Step
from master.tree.past import PastForest, between
from master.tree.topology_document import TopologyView
from topo.discovery.tree.changes import compare, net
from topo.history.ring import Moment, Piece, thin
from topo.kit.serving.problem import problem, refusal
from topo.model.errors import Refusal
from topo.model.forest import Snapshot
from topo.model.rest.changes import DiffDocument
from topo.model.rest.history import HistoryDocument, MomentDocument
from topo.model.rest.moment_id import NOW, MomentId, time_text

DIFF_PARAMETERS = (
    Parameter("from", "moment", "the moment to start after", required=True),
    Parameter("to", "moment", "the last moment; now if left out"),
)
MAX_MOMENTS = 1000
HISTORY_PARAMETERS = (
    Parameter("from", "moment", "the first moment to list; the oldest if left out"),
    Parameter("to", "moment", "the last one; the newest if left out"),
    Parameter(
        "limit",
        "integer",
        f"moments to list, 1 to {MAX_MOMENTS}, 200 if left out; neighbours are put together",
        minimum=1,
    ),
)
_BodyOf = Callable[[PastForest, Query, str], bytes | web.Response]
"""Makes the body of an answer about a moment, from its query and the mode. O(nodes)."""
AT = Parameter("at", "moment", "the tree as it was then; what was free or booked is not kept")


def find_moment(service: Service, wanted: MomentId, field: str) -> PastForest | web.Response:
    """Return the forest of a moment, 410 with the oldest moment kept, or 400 for a future one."""
    if service.past.is_ahead(wanted):
        now = time_text(service.past.clock())
        fix = f"it is {now} here; `now` is now"
        return problem(400, "that moment has yet to come", field=field, fix=fix)
    found = service.past.find(wanted, field)
    return refusal(410, found) if isinstance(found, Refusal) else found


async def get_diff(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with the net changes between two moments; 410 beyond the history."""
    service = request.app[SERVICE]
    start, end = query["from"], query.get("to", NOW)
    remembered = _remembered(service, start, end)
    if isinstance(remembered, web.Response):
        return remembered
    if remembered is not None:
        steps, numbers = remembered
        run = service.engine.history.run_id
        return json_response(
            await asyncio.to_thread(lambda: orjson.dumps(_net_diff(steps, numbers, run)))
        )
    if isinstance(other := find_moment(service, end, "to"), web.Response):
        return other
    if isinstance(one := find_moment(service, start, "from"), web.Response):
        return one
    if other.moment.at_s < one.moment.at_s:
        return _ends_before_it_starts()
    with refuse_when_full():
        return json_response(
            await service.api_limits.parts.run(lambda: lambda: orjson.dumps(_kept_diff(one, other)))
        )


def _ends_before_it_starts() -> web.Response:
    return problem(400, "the range ends before it starts", field="to", fix="swap from and to")


def _remembered(
    service: Service, start: MomentId, end: MomentId
) -> tuple[Sequence[Step], tuple[int, int]] | web.Response | None:
    """Return the steps between two generations of this run, None where not all are remembered."""
    history = service.engine.history
    now = int(history.now)
    last = now if end.is_now else end.generation.number if end.generation is not None else None
    if start.generation is None or last is None:
        return None
    ours = start.generation.is_of(history.run_id)
    if not ours or (end.generation is not None and not end.generation.is_of(history.run_id)):
        return None
    if end.generation is not None and last < start.generation.number:
        return _ends_before_it_starts()
    steps = history.since(start.generation.number)
    if steps is not None and last <= now:
        return steps, (start.generation.number, last)
    if start.generation.number > now or last > now:
        fix = f"generations {history.oldest} to {now} are remembered"
        field = "from" if start.generation.number > now else "to"
        return problem(410, "that generation is not in the history", field=field, fix=fix)
    return None


def _net_diff(steps: Sequence[Step], numbers: tuple[int, int], run: str) -> DiffDocument:
    start, end = numbers
    changes = (change for step in steps if step.generation <= end for change in step.changes)
    return {
        "from": start,
        "to": end,
        "run": run,
        "from_run": run,
        "from_at": "",
        "to_at": "",
        "changes": [change_document(each) for each in net(changes)],
    }


def _kept_diff(one: PastForest, other: PastForest) -> DiffDocument:
    start, end = one.moment, other.moment
    old, new = between(one, other)
    return {
        "from": start.generation,
        "to": end.generation,
        "run": end.run,
        "from_run": start.run,
        "from_at": time_text(start.at_s),
        "to_at": time_text(end.at_s),
        "changes": [change_document(each) for each in net(compare(old, new, end.generation))],
    }


async def get_history(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with the kept moments and how much changed at each, few enough for a slider."""
    service = request.app[SERVICE]
    limit = query.get("limit", 200)
    if limit > MAX_MOMENTS:
        fix = f"give 1 to {MAX_MOMENTS}"
        return problem(400, f"{limit} moments are too many", field="limit", fix=fix)
    pieces = service.past.ring.pieces
    first_s, last_s = 0.0, pieces[-1].moment.at_s if pieces else 0.0
    if "from" in query:
        if isinstance(found := find_moment(service, query["from"], "from"), web.Response):
            return found
        first_s = found.moment.at_s
    if "to" in query:
        if isinstance(found := find_moment(service, query["to"], "to"), web.Response):
            return found
        last_s = found.moment.at_s
    now = time_text(service.past.clock())
    listed = [each for each in pieces if first_s <= each.moment.at_s <= last_s]
    return json_response(await asyncio.to_thread(_history_body, listed, limit, now))


def _history_body(pieces: Sequence[Piece], limit: int, now: str) -> bytes:
    moments = [_moment(moment, size) for moment, size in thin(pieces, limit)]
    return orjson.dumps(HistoryDocument(now=now, moments=moments))


def _moment(moment: Moment, moments: int) -> MomentDocument:
    return {
        "at": time_text(moment.at_s),
        "generation": moment.generation,
        "run": moment.run,
        "moments": moments,
        "changes": dict(moment.changes),
    }


async def topology_at_moment(
    request: web.Request, query: Query, *, zipped: bool
) -> web.StreamResponse:
    """Answer with the tree of a moment, or a part of it; capacity and sources are not kept."""
    return await _answer_at_moment(request, query, _topology_body, zipped=zipped)


async def findings_at_moment(
    request: web.Request, query: Query, *, zipped: bool
) -> web.StreamResponse:
    """Answer with the findings on the tree of a moment."""
    return await _answer_at_moment(request, query, _findings_body, zipped=zipped)


async def _answer_at_moment(
    request: web.Request, query: Query, body_of: _BodyOf, *, zipped: bool
) -> web.StreamResponse:
    """Answer about a moment from a thread; the ETag of such an answer never changes."""
    service = request.app[SERVICE]
    found = find_moment(service, query["at"], "at")
    if isinstance(found, web.Response):
        return found
    moment = found.moment
    of_query = {name: value for name, value in query.items() if name != "at"}
    tag = topology_document.entity_tag((moment.run, moment.generation, moment.at_s), repr(of_query))
    headers = {**CACHED, "ETag": f'W/"{tag}"'}
    if has_known_tag(request.headers.get("If-None-Match"), tag):
        return web.Response(status=304, headers=headers)
    mode = service.settings.mode.value
    with refuse_when_full():
        return await service.api_limits.parts.run(
            lambda: partial(_answer, partial(body_of, found, query, mode), headers, zipped=zipped)
        )


def _answer(
    make: Callable[[], bytes | web.Response], headers: dict[str, str], *, zipped: bool
) -> web.Response:
    body = make()
    if isinstance(body, web.Response):
        return body
    return json_response(
        gzip.compress(body, GZIP_LEVEL, mtime=0) if zipped else body, headers, zipped=zipped
    )


def _topology_body(picture: PastForest, query: Query, mode: str) -> bytes | web.Response:
    moment = picture.moment
    whole = TopologyView(Snapshot(moment.generation, picture.forest()))
    view = find_fabric(whole, mode, query)
    if isinstance(view, web.Response):
        return view
    part = find_tree_part(view.snapshot.forest, query)
    if isinstance(part, web.Response):
        return part
    document = topology_document.document(view, mode, 0.0, part, run=moment.run)
    document["as_of"] = {"at": time_text(moment.at_s)}
    return topology_document.serialize(document)


def _findings_body(picture: PastForest, _query: Query, mode: str) -> bytes:
    moment = picture.moment
    view = TopologyView(Snapshot(moment.generation, picture.forest()))
    found = findings.forest_findings(view, mode)
    document = findings.document(moment.generation, moment.run, found)
    document["as_of"] = {"at": time_text(moment.at_s)}
    return findings.serialize(document)
