"""The fabric as a graph: what is in it, and that other tools read what is written."""

from dataclasses import replace
from io import BytesIO
from typing import Any

import networkx as nx
import orjson
import pytest

from tests.builders import declared, discovery, facts, managed, report, ring
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.forest import Forest, Group, Node, Reason, Status
from topo.model.ids import GroupName, Kind, NodeName
from topo.model.machine import Link, LinkKind, LinkMatrix, NetworkPort, NodeFacts
from topo.model.observation import ConfigLoaded, ManagerReported
from topo.placement.capacity.node_usage import NodeCounts
from topo.publish.graph import fabric_graph
from topo.publish.graph_formats import FORMATS, dot, graphml, node_link


def _state() -> Discovery:
    """The vendor's shape: two dragonflies of two nodes below a switchbox; one node sees a ghost."""
    state = discovery(Mode.SWITCHBOX)
    state.advance(
        0.0,
        ManagerReported(managed({"box": ["a", "b", "c", "d"]})),
        *ring(["a", "b"]),
        *ring(["c", "d"]),
        report("e", ["ghost"]),
    )
    return state


def _edges(graph: "nx.Graph[str]", of: str) -> set[frozenset[str]]:
    return {frozenset((a, b)) for a, b, edge in graph.edges(data=True) if edge["type"] == of}


def test_groups_nodes_and_wires_are_vertices_and_edges() -> None:
    forest = _state().snapshot.forest
    counts = {NodeName("a"): NodeCounts(free=2, used=1, held=5)}
    graph = fabric_graph(forest, counts=counts)
    assert _edges(graph, "wire") == {
        frozenset(pair)
        for pair in (
            ("node/a", "node/b"),
            ("node/c", "node/d"),
            ("node/e", "server/server-of-ghost"),
        )
    }
    (fly,) = {graph.nodes["node/a"]["parent"]} & {graph.nodes["node/b"]["parent"]}
    assert graph.nodes[fly]["parent"] == "group/box"
    assert graph.nodes[fly]["kind"] == "dragonfly"
    assert graph.edges["node/a", "node/b"]["ends"] == "a:1 b:1"
    assert graph.edges["node/a", "node/b"]["state"] == "up"
    about = graph.nodes["node/a"]
    assert (about["gpus"], about["free_gpus"], about["used_gpus"], about["held_gpus"]) == (
        8, 2, 1, 5,
    )  # fmt: skip
    assert graph.nodes["node/e"]["unplaced"] is True
    assert graph.nodes["server/server-of-ghost"]["type"] == "server"


def test_a_wire_that_is_cut_is_down_and_still_there() -> None:
    state = _state()
    state.advance(1.0, report("a"), report("a"))
    graph = fabric_graph(state.snapshot.forest)
    assert graph.edges["node/a", "node/b"]["state"] == "down"
    assert "is no longer seen" in graph.nodes["node/a"]["reasons"]


def test_a_group_alone_keeps_its_paths_and_the_far_ends_of_its_wires() -> None:
    state = discovery(Mode.CONFIG)
    state.advance(
        0.0,
        ConfigLoaded(declared({"box": {"x": ["a"], "y": ["b"]}})),
        *ring(["a", "b"]),
    )
    forest = state.snapshot.forest
    (box,) = forest.roots
    part = box.children[0]
    assert isinstance(part, Group)
    graph = fabric_graph(forest, parts=(((box.name,), part),))  # type: ignore[arg-type]
    assert set(graph) == {"group/box/x", "node/a", "node/b"}
    assert _edges(graph, "wire") == {frozenset(("node/a", "node/b"))}


def _with_devices() -> NodeFacts:
    nvlink, pix, self_ = (
        Link(LinkKind.NVLINK, "NV4", 4),
        Link(LinkKind.PIX, "PIX"),
        Link(LinkKind.SELF, "X"),
    )
    matrix = LinkMatrix(
        ("GPU0", "GPU1"),
        ("mlx5_0",),
        ((self_, nvlink, pix), (nvlink, self_, pix), (pix, pix, self_)),
    )
    nics = (NetworkPort("mlx5_0", 1, up=True, rate_gbps=400.0),)
    return replace(facts("a", gpus=2), matrix=matrix, nics=nics)


def test_devices_are_attributes_of_their_node_or_vertices_with_their_links() -> None:
    said = {NodeName("a"): _with_devices()}
    forest = _state().snapshot.forest
    about = fabric_graph(forest, facts=said).nodes["node/a"]
    assert [gpu["index"] for gpu in about["gpu_devices"]] == [0, 1]
    assert about["nic_devices"] == [{"hca": "mlx5_0", "port": 1, "up": True, "rate_gbps": 400.0}]
    graph = fabric_graph(forest, facts=said, devices=True)
    assert "gpu_devices" not in graph.nodes["node/a"]
    assert graph.nodes["nic/a/mlx5_0"]["rate_gbps"] == 400.0
    links = {
        frozenset((a, b)): edge["code"]
        for a, b, edge in graph.edges(data=True)
        if edge["type"] == "link"
    }
    assert links == {
        frozenset(("gpu/a/0", "gpu/a/1")): "NV4",
        frozenset(("gpu/a/0", "nic/a/mlx5_0")): "PIX",
        frozenset(("gpu/a/1", "nic/a/mlx5_0")): "PIX",
    }


def test_every_port_of_a_nic_is_a_vertex_and_one_without_a_name_is_no_failure() -> None:
    """A card of two ports is one device of the matrix; the links stay with its first port."""
    whole = _with_devices()
    more = NetworkPort("mlx5_0", 2, up=False), NetworkPort("", 1, up=True)
    said = {NodeName("a"): replace(whole, nics=(*whole.nics, *more))}
    graph = fabric_graph(_state().snapshot.forest, facts=said, devices=True)
    ports = {vertex: about for vertex, about in graph.nodes(data=True) if about["type"] == "nic"}
    assert {vertex: (about["name"], about["up"]) for vertex, about in ports.items()} == {
        "nic/a/mlx5_0": ("mlx5_0", True),
        "nic/a/mlx5_0/2": ("mlx5_0/2", False),
        "nic/a/": ("NIC", True),
    }
    assert graph.edges["gpu/a/0", "nic/a/mlx5_0"]["code"] == "PIX"


@pytest.mark.parametrize("cells", [0, 1, 2])
def test_a_matrix_with_cells_missing_costs_only_these_links(cells: int) -> None:
    """The report of one worker must not keep everybody from the graph."""
    matrix = _with_devices().matrix
    assert matrix is not None
    cut = replace(matrix, links=tuple(row[:cells] for row in matrix.links))
    said = {NodeName("a"): replace(_with_devices(), matrix=cut)}
    graph = fabric_graph(_state().snapshot.forest, facts=said, devices=True)
    links = {frozenset((a, b)) for a, b, of in graph.edges(data=True) if of["type"] == "link"}
    assert links == ({frozenset(("gpu/a/0", "gpu/a/1"))} if cells == 2 else set())


def _hostile() -> Forest:
    """Names and reasons with all that XML and DOT give a meaning to, or cannot write."""
    said = Reason("x", 'a "quoted" <tag> & \\back\x00\x1b[31m\nline')
    node = Node(NodeName('n"1\\<&\x07'), Status.NOT_READY, (said,), gpus=8)
    return Forest((Group(GroupName('g"<'), Kind("k"), 1, Status.NOT_READY, (node,)),))


@pytest.mark.parametrize("devices", [False, True])
def test_what_is_written_is_what_other_tools_read(*, devices: bool) -> None:
    """Both formats that networkx reads: the same vertices, edges and attributes."""
    state = _state()
    said = {NodeName("a"): _with_devices()}
    for forest in (state.snapshot.forest, Forest()):
        graph = fabric_graph(forest, facts=said, devices=devices)
        graph.graph.update(generation=7, run="5e0c21af")
        again: Any = nx.node_link_graph(orjson.loads(node_link(graph)), edges="edges")
        assert nx.utils.graphs_equal(graph, again)
        assert again.graph == {"generation": 7, "run": "5e0c21af"}
        read: Any = nx.read_graphml(BytesIO(graphml(graph)))
        assert set(read) == set(graph)
        assert {frozenset(e) for e in read.edges} == {frozenset(e) for e in graph.edges}
        for vertex, about in graph.nodes(data=True):
            for name, value in about.items():
                told = orjson.dumps(value).decode() if isinstance(value, list) else value
                assert read.nodes[vertex][name] == told


def test_hostile_texts_stay_texts() -> None:
    graph = fabric_graph(_hostile())
    read: Any = nx.read_graphml(BytesIO(graphml(graph)))
    assert len(read) == len(graph)
    (vertex,) = [v for v, about in read.nodes(data=True) if about["type"] == "node"]
    assert vertex == 'node/n"1\\<&\N{REPLACEMENT CHARACTER}'
    text = dot(graph).decode()
    assert "\x1b" not in text
    assert '"node/n\\"1\\\\<& " [label="n\\"1\\\\<& \\n8 GPUs, 0 free"' in text
    assert text.count("{") == text.count("}")


def test_groups_are_clusters_around_their_nodes_in_dot() -> None:
    text = dot(fabric_graph(_state().snapshot.forest)).decode()
    assert text.startswith("graph fabric {")
    assert 'subgraph "cluster_group/box" {' in text
    assert '"node/a" -- "node/b" [color=darkgreen, style=solid' in text
    assert '"node/e" -- "server/server-of-ghost" [color=gray40, style=dashed' in text


def test_ten_thousand_equal_groups_are_written_in_every_format() -> None:
    """One node each: nothing grows with the square of the groups."""
    roots = tuple(
        Group(
            GroupName(f"g{i}"), Kind("k"), 1, Status.READY, (Node(NodeName(f"n{i}"), Status.READY),)
        )
        for i in range(10_000)
    )
    graph = fabric_graph(Forest(roots))
    assert len(graph) == 20_000
    for write in FORMATS.values():
        assert b"n9999" in write(graph)
