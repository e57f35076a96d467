"""`GET /v1/topology/graph`: the fabric as a graph, in formats that other tools open."""

from collections.abc import Callable, Mapping
from functools import partial

from aiohttp import web

from master.api.answers import refuse_when_full, unknown_group
from master.api.requests.reading import Parameter, Query
from master.api.requests.tree_part import find_fabric
from master.service import SERVICE, Service
from master.tree.selection import Selected, find_groups
from master.tree.topology_document import TopologyView
from topo.discovery.tree.fabric_forests import fabric_of_tree
from topo.kit.serving.problem import problem
from topo.model.forest import Group
from topo.model.ids import NodeName
from topo.model.machine import NodeFacts
from topo.model.nearest import did_you_mean
from topo.model.rest.graph import GRAPH_MEDIA

MAX_DEVICE_NODES = 1000
"""Nodes whose GPUs and NICs may be vertices: each makes a dozen of them, and up to 66 links."""
_DEVICES = ("attributes", "vertices")
PARAMETERS = (
    Parameter(
        "format", "string", "how it is written; node-link if left out", words=tuple(GRAPH_MEDIA)
    ),
    Parameter("group", "string", "a group's name, or its path joined with /"),
    Parameter("fabric", "string", "the groups of another fabric, such as scale-out"),
    Parameter(
        "devices", "string", "what GPUs and NICs are; attributes if left out", words=_DEVICES
    ),
)


async def get_graph(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with the graph, built in a thread, one at a time.

    All who ask for the same graph of the same version while it is made get one.
    """
    service = request.app[SERVICE]
    chosen = {"format": "node-link", "devices": "attributes", **query}
    for parameter in (each for each in PARAMETERS if each.words):
        given = chosen[parameter.name]
        if given not in parameter.words:
            fix = did_you_mean(given, parameter.words, f"give {' or '.join(parameter.words)}")
            return problem(400, f"there is no {given!r}", field=parameter.name, fix=fix)
    with refuse_when_full():
        key = service.topology.version(), *sorted(chosen.items())
        body = await service.api_limits.graphs.run(key, partial(_prepare_graph, service, chosen))
    if isinstance(body, web.Response):  # several may have it, and each sends one of its own
        return web.Response(status=body.status, body=body.body, content_type=body.content_type)
    return web.Response(body=body, content_type=GRAPH_MEDIA[chosen["format"]])


def _prepare_graph(service: Service, query: Query) -> Callable[[], bytes | web.Response]:
    """Return what makes the answer in any thread, from values frozen now on the loop."""
    run, mode = service.engine.history.run_id, service.settings.mode
    view, facts = service.topology.view(), service.engine.facts()
    return partial(_render_graph, view, facts, run, query, mode=mode)


def _render_graph(
    of: TopologyView, facts: Mapping[NodeName, NodeFacts], run: str, query: Query, *, mode: str
) -> bytes | web.Response:
    # networkx takes 0.1 s and 15 MB that a master without this call does not need.
    from topo.publish.graph import fabric_graph  # noqa: PLC0415 - see above
    from topo.publish.graph_formats import FORMATS  # noqa: PLC0415 - see above

    view = find_fabric(of, mode, query)
    if isinstance(view, web.Response):
        return view
    forest, name, devices = view.snapshot.forest, query.get("group"), query["devices"]
    parts = None if name is None else find_groups(forest, name)
    if name is not None and not parts:
        return unknown_group(name, forest)
    if devices == "vertices" and (nodes := _node_count(view, parts)) > MAX_DEVICE_NODES:
        what = f"GPUs and NICs of {nodes} nodes are too many for vertices"
        fix = f"name a group of at most {MAX_DEVICE_NODES} nodes"
        return problem(400, what, field="devices", fix=fix)
    graph = fabric_graph(
        forest,
        parts=parts,
        facts=facts,
        counts=view.usage.counts,
        devices=devices == "vertices",
    )
    graph.graph.update(generation=view.snapshot.generation, run=run)
    if fabric := view.fabric or fabric_of_tree(of.snapshot.forest, mode):
        graph.graph["fabric"] = fabric
    try:
        return FORMATS[query["format"]](graph)
    finally:
        # A graph of networkx and its views refer to each other, and the master collects cycles of
        # old objects next to never: 5 MiB of 1,000 nodes would stay for each call.
        graph.clear()


def _node_count(view: TopologyView, parts: tuple[Selected, ...] | None) -> int:
    if parts is None:
        return sum(1 for _ in view.snapshot.forest.nodes())
    return sum(not isinstance(v, Group) for above, group in parts for _, v in group.walk(above))
