"""`GET /node_group`, `/v1/topology`, `/v1/nodes/{name}`: the tree, or one group or node of it."""

import gzip
from collections.abc import Callable
from functools import partial

from aiohttp import web

from master.api.answers import (
    CACHED,
    accepted_encoding,
    has_known_tag,
    json_response,
    not_acceptable,
    not_ready,
    refuse_when_full,
)
from master.api.history import AT, topology_at_moment
from master.api.requests.reading import Parameter, Query
from master.api.requests.tree_part import find_fabric, find_tree_part
from master.service import SERVICE, Service
from master.tree import topology_document
from master.tree.document_cache import GZIP_LEVEL
from master.tree.fabrics import node_places
from master.tree.topology_document import TopologyView, TreePart
from topo.discovery.node_detail import NodeDetail
from topo.model.ids import NodeName
from topo.model.rest.topology import NodeDetailDocument, UplinkDocument

PARAMETERS = (
    Parameter("group", "string", "a group's name, or its path joined with /"),
    Parameter("node", "string", "a node's name; adds what its worker said"),
    Parameter("depth", "integer", "levels of children to show, from 0"),
    Parameter("fabric", "string", "the groups of another fabric, such as scale-out"),
    AT,
)


NODE_PARAMETERS = (
    Parameter("name", "string", "the node's name", max_chars=253, place="path"),
    Parameter("fabric", "string", "its groups in another fabric, such as scale-out"),
)


async def get_node_group(request: web.Request, _query: Query) -> web.StreamResponse:
    """Answer with the vendor's document and a strong ETag per representation."""
    service = request.app[SERVICE]
    if missing := service.availability.missing():
        return not_ready(service, missing)
    document = await service.documents.node_group.document()
    zipped_tag = f"{document.tag}-gzip"
    taken = accepted_encoding(request.headers.get("Accept-Encoding"))
    if taken is None:
        return not_acceptable()
    zipped = taken == "gzip"
    headers = {**CACHED, "ETag": f'"{zipped_tag if zipped else document.tag}"'}
    if has_known_tag(request.headers.get("If-None-Match"), document.tag, zipped_tag):
        return web.Response(status=304, headers=headers)
    body = await service.documents.node_group.compressed(document) if zipped else document.body
    return json_response(body, headers, zipped=zipped)


async def get_topology(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with the tree and a weak ETag: ages of sources move without a new one."""
    taken = accepted_encoding(request.headers.get("Accept-Encoding"))
    if taken is None:
        return not_acceptable()
    if "at" in query and not query["at"].is_now:
        return await topology_at_moment(request, query, zipped=taken == "gzip")
    if request.query:
        return await _part(request, query, zipped=taken == "gzip")
    return await _whole(request, zipped=taken == "gzip")


async def get_node(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer as `get_topology` does for the node of the path."""
    taken = accepted_encoding(request.headers.get("Accept-Encoding"))
    if taken is None:
        return not_acceptable()
    named = {**query, "node": query["name"]}
    return await _part(request, named, zipped=taken == "gzip")


async def _whole(request: web.Request, *, zipped: bool) -> web.StreamResponse:
    """Answer with the whole document from the cache."""
    service = request.app[SERVICE]
    tag = topology_document.entity_tag(service.topology.version())
    if has_known_tag(request.headers.get("If-None-Match"), tag):
        return web.Response(status=304, headers={**CACHED, "ETag": f'W/"{tag}"'})
    made = await service.documents.topology.document()
    headers = {**CACHED, "ETag": f'W/"{topology_document.entity_tag(made.version)}"'}
    body = await service.documents.topology.compressed(made) if zipped else made.body
    return json_response(body, headers, zipped=zipped)


async def _part(request: web.Request, query: Query, *, zipped: bool) -> web.StreamResponse:
    """Answer with one group, one node, or some levels, made for this request, one at a time.

    So that few are in memory before they are sent, and the event loop shares its core with one.
    """
    with refuse_when_full():
        prepare = partial(_prepared, request, query, zipped=zipped)
        return await request.app[SERVICE].api_limits.parts.run(prepare)


def _prepared(request: web.Request, query: Query, *, zipped: bool) -> Callable[[], web.Response]:
    """Return what makes the answer in any thread, from values frozen now on the loop."""
    service = request.app[SERVICE]
    view = service.topology.view()
    mode, render = service.settings.mode, _renderer(service, query)
    headers, known = dict(CACHED), False
    if "node" not in query:  # what a worker said may change without a new generation
        tag = topology_document.entity_tag(view.version, request.query_string)
        headers["ETag"] = f'W/"{tag}"'
        known = has_known_tag(request.headers.get("If-None-Match"), tag)

    def made() -> web.Response:
        shown = find_fabric(view, mode, query)
        if isinstance(shown, web.Response):
            return shown
        part = find_tree_part(shown.snapshot.forest, query)
        if isinstance(part, web.Response):
            return part
        if known:
            return web.Response(status=304, headers=headers)
        body = render(shown, part)
        if zipped:
            body = gzip.compress(body, GZIP_LEVEL, mtime=0)
        return json_response(body, headers, zipped=zipped)

    return made


def _renderer(service: Service, query: Query) -> Callable[[TopologyView, TreePart], bytes]:
    """Return what makes a part's bytes in any thread."""
    engine, node = service.engine, query.get("node")
    mode, run, now_s = service.settings.mode, engine.history.run_id, engine.clock()
    detail = None if node is None else engine.detail(NodeName(node))
    held = None if node is None else engine.suspicion(NodeName(node))

    def render(view: TopologyView, part: TreePart) -> bytes:
        document = topology_document.document(view, mode.value, now_s, part, run=run)
        if node is not None and detail is not None:
            about: NodeDetailDocument = {**_node_detail(detail, now_s), "suspicion": held}
            if places := node_places(view, mode, part, node):
                about["places"] = places
            document["node"] = about
        return topology_document.serialize(document)

    return render


def uplinks(detail: NodeDetail, now_s: float) -> list[UplinkDocument]:
    """Return the cables of a node to switches; `now_s` is on the clock of the engine."""
    return [
        {
            "adapter": each.adapter,
            "interface": each.interface,
            "gpus": each.gpus,
            "switch": each.switch,
            "port": each.port,
            "rate": each.rate,
            "rail": each.rail,
            "unseen_s": None if (at_s := each.unseen_since_s) is None else round(now_s - at_s, 1),
        }
        for each in detail.uplinks
    ]


def _node_detail(detail: NodeDetail, now_s: float) -> NodeDetailDocument:
    facts, seen_s = detail.facts, detail.seen_at_s
    return {
        "identity": facts.identity if facts else None,
        "gpus": facts.gpus if facts else (),
        "matrix": facts.matrix if facts else None,
        "ports": facts.ports if facts else (),
        "peers": facts.peers if facts else None,
        "fabrics": facts.fabrics if facts else (),
        "nics": facts.nics if facts else (),
        "nic_neighbours": facts.nic_neighbours if facts else (),
        "uplinks": uplinks(detail, now_s),
        "probes": facts.probes if facts else (),
        "neighbours": detail.neighbours,
        "wires": [
            {
                "slot": link.slot,
                "server": link.server,
                "nodes": link.nodes,
                "state": link.state,
                "text": link.text,
            }
            for link in detail.links
        ],
        "stated": [{"source": each.source, "path": each.path} for each in detail.stated],
        "suspicion": None,
        "stale": detail.stale,
        "beat_age_s": None if seen_s is None else round(now_s - seen_s, 1),
    }
