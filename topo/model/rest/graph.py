"""`GET /v1/topology/graph?format=node-link`: the fabric as `networkx.node_link_graph` reads it."""

from typing import Annotated, Any

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from topo.model.rest.document import one_of

GRAPH_MEDIA = {
    "node-link": "application/json",
    "graphml": "application/graphml+xml",
    "dot": "text/vnd.graphviz",
}
"""The formats of the graph by name, with their media types."""


@with_config(ConfigDict(extra="allow"))
class VertexDocument(TypedDict):
    """A group, node, GPU, NIC, or a server that no node states; its facts are further keys."""

    id: str
    type: Annotated[str, one_of("group", "node", "gpu", "nic", "server")]
    name: str


@with_config(ConfigDict(extra="allow"))
class EdgeDocument(TypedDict):
    """What two vertices have to do with each other; of wires and links with further keys."""

    source: str
    target: str
    type: Annotated[str, one_of("contains", "wire", "link")]


class GraphDocument(TypedDict):
    """The graph, undirected; `graph` says of which generation of which run it is."""

    directed: bool
    multigraph: bool
    graph: dict[str, Any]
    nodes: list[VertexDocument]
    edges: list[EdgeDocument]
