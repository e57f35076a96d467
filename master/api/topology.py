"""`GET /v1/topology`: the whole story, or one group or node of it."""

import asyncio
import gzip
import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from master import story
from master.api.query import Parameter, Query
from master.api.representation import coding, is_known, none_acceptable
from master.published import GZIP_LEVEL
from master.service import SERVICE, Service
from topo.discovery.state import NodeDetail
from topo.kit.problem import problem
from topo.kit.settings import nearest
from topo.model.forest import Forest, Group, Snapshot
from topo.model.ids import NodeName
from topo.publish.topology import Placed, document, find_groups, path_to

PARAMETERS = (
    Parameter("group", "string", "a group's name, or its path joined with /"),
    Parameter("node", "string", "a node's name; adds what its worker said"),
    Parameter("depth", "integer", "levels of children to show, from 0"),
)
_COMPARED_NAMES = 32
"""The nearest of 10,000 names costs 0.2 s by edit distance; by their two ends it is 20 ms."""
_ALWAYS = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}


@dataclass(frozen=True, slots=True)
class _View:
    """One request's cut of a snapshot: pure data, rendered in a thread."""

    snapshot: Snapshot
    mode: str
    run: str
    now_s: float
    groups: tuple[Placed, ...] | None
    depth: int | None
    detail: NodeDetail | None

    def body(self) -> bytes:
        """The document's bytes."""
        answer = document(
            self.snapshot, self.mode, self.now_s, groups=self.groups, depth=self.depth
        )
        if self.detail is not None:
            answer["node"] = _node_document(self.detail, self.now_s)
        return story.dumped(answer, self.run)

    def zipped(self) -> bytes:
        """The same as gzip."""
        return gzip.compress(self.body(), GZIP_LEVEL, mtime=0)


async def get_topology(request: web.Request, query: Query) -> web.StreamResponse:
    """The document, with a weak ETag: ages of sources move without a new one."""
    service = request.app[SERVICE]
    taken = coding(request.headers.get("Accept-Encoding"))
    if taken is None:
        return none_acceptable()
    zipped = taken == "gzip"
    if request.query:
        return await _part(request, query, service, zipped=zipped)
    return await _whole(request, service, zipped=zipped)


async def _whole(request: web.Request, service: Service, *, zipped: bool) -> web.StreamResponse:
    """All of it, as it was made for somebody else a moment ago."""
    tag = story.tag(service.engine.snapshot)
    if is_known(request.headers.get("If-None-Match"), tag):
        return web.Response(status=304, headers={**_ALWAYS, "ETag": f'W/"{tag}"'})
    made = await service.story.document()
    headers = {**_ALWAYS, "ETag": f'W/"{story.tag(made.snapshot)}"'}
    body = made.body
    if zipped:
        headers["Content-Encoding"] = "gzip"
        body = await service.story.compressed(made)
    return web.Response(body=body, headers=headers, content_type="application/json")


async def _part(
    request: web.Request, query: Query, service: Service, *, zipped: bool
) -> web.StreamResponse:
    """One group, one node, or some levels: cut and made for this request."""
    engine = service.engine
    snapshot = engine.snapshot
    shown = await asyncio.to_thread(_shown, snapshot.forest, query)
    if isinstance(shown, web.Response):
        return shown
    headers = dict(_ALWAYS)
    node = query.strings.get("node")
    if node is None:  # what a worker said may change without a new generation
        tag = story.tag(snapshot, request.query_string)
        headers["ETag"] = f'W/"{tag}"'
        if is_known(request.headers.get("If-None-Match"), tag):
            return web.Response(status=304, headers=headers)
    view = _View(
        snapshot=snapshot,
        mode=service.settings.mode.value,
        run=engine.history.run,
        now_s=engine.clock(),
        groups=shown,
        depth=query.integers.get("depth"),
        detail=None if node is None else engine.detail(NodeName(node)),
    )
    render = view.body
    if zipped:
        headers["Content-Encoding"] = "gzip"
        render = view.zipped
    body = await asyncio.to_thread(render)
    return web.Response(body=body, headers=headers, content_type="application/json")


def _shown(forest: Forest, query: Query) -> tuple[Placed, ...] | web.Response | None:
    """The groups asked for, None for all; or the 404 that names the nearest name."""
    node, group = query.strings.get("node"), query.strings.get("group")
    if node is not None and group is not None:
        return problem(400, "node and group exclude each other", field="node", fix="give one")
    if node is not None:
        path = path_to(forest, NodeName(node))
        return _unknown("node", node, _node_names(forest)) if path is None else path
    if group is not None:
        return find_groups(forest, group) or _unknown("group", group, _group_names(forest))
    return None


def _unknown(what: str, name: str, known: list[str]) -> web.Response:
    fix = nearest(name, _alike(name, known)) or "GET /v1/topology lists what there is"
    return problem(404, f"there is no {what} {name!r}", field=what, fix=fix)


def _alike(name: str, known: Iterable[str]) -> list[str]:
    """The names that begin and end most like this one: a slip leaves both ends as they were."""
    wanted = name.lower()

    def ends(other: str) -> int:
        other = other.lower()
        return _shared_start(wanted, other) + _shared_start(wanted[::-1], other[::-1])

    return heapq.nlargest(_COMPARED_NAMES, known, key=ends)


def _shared_start(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _node_names(forest: Forest) -> list[str]:
    placed = [str(v.name) for _, v in forest.walk() if not isinstance(v, Group)]
    return placed + [str(entry.node.name) for entry in forest.unplaced]


def _group_names(forest: Forest) -> list[str]:
    groups = [(above, v) for above, v in forest.walk() if isinstance(v, Group)]
    return [str(g.name) for _, g in groups] + ["/".join((*above, g.name)) for above, g in groups]


def _node_document(detail: NodeDetail, now_s: float) -> dict[str, Any]:
    facts = detail.facts
    seen_s = detail.seen_at_s
    return {
        "identity": None if facts is None else facts.identity,
        "gpus": () if facts is None else facts.gpus,
        "matrix": None if facts is None else facts.matrix,
        "ports": () if facts is None else facts.ports,
        "peers": None if facts is None else facts.peers,
        "fabrics": () if facts is None else facts.fabrics,
        "nics": () if facts is None else facts.nics,
        "probes": () if facts is None else facts.probes,
        "neighbours": detail.neighbours,
        "stale": detail.stale,
        "beat_age_s": None if seen_s is None else round(now_s - seen_s, 1),
    }
