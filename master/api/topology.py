"""`GET /v1/topology`: the whole story, or one group or node of it."""

import asyncio
import gzip
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from master.api.answers.not_found import unknown_group, unknown_node
from master.api.answers.representation import coding, is_known, none_acceptable
from master.api.requests.query import Parameter, Query
from master.service import SERVICE, Service
from master.tree import topology_document
from master.tree.document_cache import GZIP_LEVEL
from master.tree.selection import Selected, find_groups, path_to
from topo.discovery.state import NodeDetail
from topo.kit.problem import problem
from topo.model.forest import Forest, Snapshot
from topo.model.ids import NodeName

PARAMETERS = (
    Parameter("group", "string", "a group's name, or its path joined with /"),
    Parameter("node", "string", "a node's name; adds what its worker said"),
    Parameter("depth", "integer", "levels of children to show, from 0"),
)
_ALWAYS = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}


@dataclass(frozen=True, slots=True)
class _View:
    """One request's cut of a snapshot: pure data, rendered in a thread."""

    snapshot: Snapshot
    mode: str
    run: str
    now_s: float
    groups: tuple[Selected, ...] | None
    depth: int | None
    detail: NodeDetail | None

    def body(self) -> bytes:
        """The document's bytes."""
        answer = topology_document.document(
            self.snapshot, self.mode, self.now_s, groups=self.groups, depth=self.depth
        )
        if self.detail is not None:
            answer["node"] = _node_document(self.detail, self.now_s)
        return topology_document.dumped(answer, self.run)

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
    tag = topology_document.tag(service.engine.snapshot)
    if is_known(request.headers.get("If-None-Match"), tag):
        return web.Response(status=304, headers={**_ALWAYS, "ETag": f'W/"{tag}"'})
    made = await service.topology_document.document()
    headers = {**_ALWAYS, "ETag": f'W/"{topology_document.tag(made.snapshot)}"'}
    body = made.body
    if zipped:
        headers["Content-Encoding"] = "gzip"
        body = await service.topology_document.compressed(made)
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
        tag = topology_document.tag(snapshot, request.query_string)
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


def _shown(forest: Forest, query: Query) -> tuple[Selected, ...] | web.Response | None:
    """The groups asked for, None for all; or the 404 that names the nearest name."""
    node, group = query.strings.get("node"), query.strings.get("group")
    if node is not None and group is not None:
        return problem(400, "node and group exclude each other", field="node", fix="give one")
    if node is not None:
        path = path_to(forest, NodeName(node))
        return unknown_node(node, forest) if path is None else path
    if group is not None:
        return find_groups(forest, group) or unknown_group(group, forest)
    return None


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
