"""The fabric as a graph of networkx, to compute on or to draw.

`fabric_graph` gives an undirected `networkx.Graph`. Its vertices are texts that say what they are,
`group/switchbox-1/dragonfly-2`, `node/node-3`, `gpu/node-3/0`, `nic/node-3/mlx5_0` (a second port
of it: `nic/node-3/mlx5_0/2`), `server/<uuid>`, each with the attributes

- `type`: `group`, `node`, `gpu`, `nic`, or `server`: one that a node sees and no node states
- `name`, and `parent`: the vertex that it is in, where there is one
- of groups and nodes: `kind`, `status`, `reasons`; of groups also `tier`
- of nodes: `gpus`, `gpu_type`, `free_gpus`, `used_gpus`, `held_gpus`, `cordoned`, and as lists of
  dictionaries `gpu_devices` and `nic_devices`, or each of these as a vertex of its own

and its edges have a `type`: `contains`, `wire` (between nodes: `state`, and the slots at both ends
as `ends`) or `link` (inside a node: `code` and `count` of the link matrix). An unknown
fact is no attribute. O(nodes and devices, and GPUs squared of a node where they are vertices).

Example, in Python, from a state that was built from recorded reports:
    graph = fabric_graph(discovery.snapshot.forest)
    wires = [edge for *edge, of in graph.edges(data="type") if of == "wire"]
    networkx.number_connected_components(graph.edge_subgraph(wires))
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

import networkx as nx

from topo.facts.vendors import device
from topo.model.forest import ROOT, Forest, Group, LinkState, Node
from topo.model.ids import NODE, GroupPath, NodeName
from topo.model.machine import Gpu, LinkKind, LinkMatrix, NetworkPort, NodeFacts
from topo.placement.capacity.node_usage import NO_COUNTS, NodeCounts
from topo.publish.wires import wires_of

Attributes = dict[str, Any]
Part = tuple[GroupPath, Group]
"""A group with the path of its parent."""
_GPU_FIELDS = ("index", "model", "uuid", "healthy", "numa", "memory_bytes")
_NIC_FIELDS = ("hca", "port", "up", "rate_gbps", "link_layer", "numa")
_NO_LINK = (LinkKind.SELF, LinkKind.NONE, LinkKind.UNKNOWN)


def fabric_graph(
    forest: Forest,
    *,
    parts: Iterable[Part] | None = None,
    facts: Mapping[NodeName, NodeFacts] | None = None,
    counts: Mapping[NodeName, NodeCounts] | None = None,
    devices: bool = False,
) -> "nx.Graph[str]":
    """Return the graph of a forest, or of some groups of it.

    `facts` are what the workers said of their devices, `counts` where the GPUs are; with `devices`
    each GPU and NIC is a vertex.
    """
    graph: nx.Graph[str] = nx.Graph()
    shown = list(_add_tree(graph, forest, parts))
    known = {node.name: node for node in forest.nodes()}
    for node in shown:
        vertex = _node_id(node.name)
        graph.nodes[vertex].update(_capacity(node, (counts or {}).get(node.name, NO_COUNTS)))
        said = (facts or {}).get(node.name)
        if said is None:
            continue
        if devices:
            _add_devices(graph, vertex, said)
        else:
            graph.nodes[vertex].update(gpu_devices=_gpus(said), nic_devices=_nics(said))
    for wire in wires_of(shown, known):
        peer, at = f"server/{wire.server}", f"{wire.node}:{wire.slot}"
        if wire.peer is not None:
            peer = _node_id(wire.peer)
            at += f" {wire.peer}:{'?' if wire.peer_slot is None else wire.peer_slot}"
        if peer not in graph:
            kind = "node" if wire.peer is not None else "server"
            graph.add_node(peer, type=kind, name=wire.peer or wire.server)
        state, beside = wire.state.value, graph.get_edge_data(_node_id(wire.node), peer)
        if beside is not None:
            state = beside["state"] if beside["state"] == LinkState.DOWN else state
            at = f"{beside['ends']}, {at}"
        graph.add_edge(_node_id(wire.node), peer, type="wire", state=state, ends=at)
    return graph


def _add_tree(
    graph: "nx.Graph[str]", forest: Forest, parts: Iterable[Part] | None
) -> Iterator[Node]:
    """Add groups and nodes; the nodes that were added, in their order."""
    roots = ((ROOT, root) for root in forest.roots)
    for top, group in roots if parts is None else parts:
        for above, vertex in group.walk(top):
            within = f"group/{'/'.join(above)}" if above else None
            parent = within if within in graph else None
            if isinstance(vertex, Group):
                _add(graph, f"group/{'/'.join((*above, vertex.name))}", parent, _vertex(vertex))
            else:
                _add(graph, _node_id(vertex.name), parent, _vertex(vertex))
                yield vertex
    for entry in forest.unplaced if parts is None else ():
        _add(graph, _node_id(entry.node.name), None, {**_vertex(entry.node), "unplaced": True})
        yield entry.node


def _add(graph: "nx.Graph[str]", vertex: str, parent: str | None, about: Attributes) -> None:
    graph.add_node(vertex, **_stated(about))
    if parent is not None:
        graph.nodes[vertex]["parent"] = parent
        graph.add_edge(parent, vertex, type="contains")


def _stated(about: Attributes) -> Attributes:
    return {key: value for key, value in about.items() if value not in (None, "")}


def _vertex(of: Group | Node) -> Attributes:
    kind, tier = (of.kind, of.tier) if isinstance(of, Group) else (NODE, None)
    return {
        "type": "node" if tier is None else "group",
        "name": str(of.name),
        "kind": str(kind),
        "tier": tier,
        "status": of.status.value,
        "reasons": "; ".join(reason.text for reason in of.reasons),
    }


def _capacity(node: Node, counts: NodeCounts) -> Attributes:
    about = {
        "gpus": node.gpus,
        "gpu_type": node.gpu_type,
        "free_gpus": counts.free,
        "used_gpus": counts.used,
        "held_gpus": counts.held,
        "cordoned": counts.is_cordoned,
    }
    return _stated(about)


def _gpus(facts: NodeFacts) -> list[Attributes]:
    return [_fields(gpu, _GPU_FIELDS) for gpu in facts.gpus]


def _nics(facts: NodeFacts) -> list[Attributes]:
    return [_fields(nic, _NIC_FIELDS) for nic in facts.nics]


def _fields(of: Gpu | NetworkPort, names: Iterable[str]) -> Attributes:
    return _stated({name: getattr(of, name) for name in names})


def _node_id(node: str) -> str:
    return f"node/{node}"


def _add_devices(graph: "nx.Graph[str]", node: str, facts: NodeFacts) -> None:
    """Add the GPUs and NICs of a node as vertices, joined as its link matrix says."""
    name = facts.identity.name
    for gpu in _gpus(facts):
        about = {"type": "gpu", "name": f"GPU {gpu['index']}", **gpu}
        _add(graph, f"gpu/{name}/{gpu['index']}", node, about)
    for port, nic in zip(facts.nics, _nics(facts), strict=True):
        vertex, called = f"nic/{name}/{port.hca}", port.hca or "NIC"
        if vertex in graph:
            vertex, called = f"{vertex}/{port.port}", f"{called}/{port.port}"
        _add(graph, vertex, node, {"type": "nic", "name": called, **nic})
    if facts.matrix is not None:
        _add_links(graph, node, facts.matrix)


def _add_links(graph: "nx.Graph[str]", node: str, matrix: LinkMatrix) -> None:
    name = node.removeprefix("node/")
    found = [device(gpu) for gpu in matrix.gpus]
    at = [f"gpu/{name}/{each[1]}" if each is not None else None for each in found]
    at += [f"nic/{name}/{nic}" for nic in matrix.nics]
    for nic, vertex in zip(matrix.nics, at[len(matrix.gpus) :], strict=True):
        if vertex is not None and vertex not in graph:
            _add(graph, vertex, node, {"type": "nic", "name": nic})
    for row, column in combinations(range(len(at)), 2):
        one, other = at[row], at[column]
        if one is None or other is None:
            continue
        if row >= len(matrix.links) or column >= len(matrix.links[row]):
            continue  # no NIC rows, or a report with cells missing
        link = matrix.links[row][column]
        if link.kind not in _NO_LINK and one in graph and other in graph:
            graph.add_edge(one, other, type="link", code=link.code, count=link.count)
