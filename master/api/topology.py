"""`GET /v1/topology`: the whole story, or one group or node of it."""

import asyncio
import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from master.api.query import Parameter, Query
from master.api.representation import is_known
from master.service import SERVICE
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
_PROCESS = secrets.token_hex(4)
"""Generations of two processes are not comparable, so their tags must differ."""
_COMPRESS_IN_THREAD_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class _View:
    """One request's cut of a snapshot: pure data, rendered in a thread."""

    snapshot: Snapshot
    mode: str
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
        return orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)


async def get_topology(request: web.Request, query: Query) -> web.StreamResponse:
    """The document, with a weak ETag: ages of sources move without a new one."""
    service = request.app[SERVICE]
    engine = service.engine
    snapshot = engine.snapshot
    shown = _shown(snapshot.forest, query)
    if isinstance(shown, web.Response):
        return shown
    headers = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    node = query.strings.get("node")
    if node is None:  # what a worker said may change without a new generation
        tag = _tag(snapshot, request.query_string)
        headers["ETag"] = f'W/"{tag}"'
        if is_known(request.headers.get("If-None-Match"), tag):
            return web.Response(status=304, headers=headers)
    view = _View(
        snapshot=snapshot,
        mode=service.settings.mode.value,
        now_s=engine.clock(),
        groups=shown,
        depth=query.integers.get("depth"),
        detail=None if node is None else engine.detail(NodeName(node)),
    )
    response = web.Response(
        body=await asyncio.to_thread(view.body),
        headers=headers,
        content_type="application/json",
        zlib_executor_size=_COMPRESS_IN_THREAD_BYTES,
    )
    response.enable_compression()
    return response


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
    fix = nearest(name, known) or "GET /v1/topology lists what there is"
    return problem(404, f"there is no {what} {name!r}", field=what, fix=fix)


def _node_names(forest: Forest) -> list[str]:
    placed = [str(v.name) for _, v in forest.walk() if not isinstance(v, Group)]
    return placed + [str(entry.node.name) for entry in forest.unplaced]


def _group_names(forest: Forest) -> list[str]:
    groups = [(above, v) for above, v in forest.walk() if isinstance(v, Group)]
    return [str(g.name) for _, g in groups] + ["/".join((*above, g.name)) for above, g in groups]


def _tag(snapshot: Snapshot, query: str) -> str:
    states = [
        (s.source, s.last_good_at_s is None, s.failing_since_s is None, s.trouble)
        for s in snapshot.sources
    ]
    restored = snapshot.restored_age_s is not None
    text = repr((_PROCESS, snapshot.generation, restored, states, query))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


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
