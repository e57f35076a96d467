"""A graph of the fabric as files that other tools open: node-link JSON, GraphML, DOT.

- node-link: what `networkx.node_link_graph(data, edges="edges")` reads, and d3 with little more
- GraphML: http://graphml.graphdrawing.org/specification.html; for Gephi, yEd, Cytoscape. It has no
  lists and no nulls, so a list is a text of JSON
- DOT: https://graphviz.org/doc/info/lang.html; groups are clusters, so `dot` and `fdp` draw them
  as boxes around their nodes
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import networkx as nx
import orjson

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write (2.2, Char)."""
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f]+")
PIECE = 1000
_COLOURS = {"Ready": "darkgreen", "NotReady": "red3", "up": "darkgreen", "down": "red3"}


def node_link(graph: "nx.Graph[str]") -> bytes:
    """Return the graph as JSON with `nodes` and `edges`.

    Written in pieces of `PIECE`: all of 10,000 nodes is a call that stops all threads for 40 ms.
    """
    data = nx.node_link_data(graph, edges="edges")
    members = [f'"nodes":[{_pieces(data.pop("nodes"))}]', f'"edges":[{_pieces(data.pop("edges"))}]']
    return f"{orjson.dumps(data).decode()[:-1]},{','.join(members)}}}\n".encode()


def _pieces(rows: list[Any]) -> str:
    """Return the elements of a JSON array."""
    found = (rows[at : at + PIECE] for at in range(0, len(rows), PIECE))
    return ",".join(orjson.dumps(each)[1:-1].decode() for each in found)


def graphml(graph: "nx.Graph[str]") -> bytes:
    """Return the graph as XML in UTF-8.

    Written here: networkx looks up the key of each attribute among all, 4 s for 10,000 nodes.
    """
    nodes = [(vertex, _scalars(about)) for vertex, about in graph.nodes(data=True)]
    edges = [(one, other, _scalars(of)) for one, other, of in graph.edges(data=True)]
    whole = _scalars(graph.graph)
    keys: dict[tuple[str, str], str] = {}
    for owner, rows in (
        ("graph", [whole]),
        ("node", [about for _, about in nodes]),
        ("edge", [of for *_, of in edges]),
    ):
        for name, kind in _kinds(rows).items():
            keys[owner, name] = kind
    ids = {key: f"d{number}" for number, key in enumerate(keys)}
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
    ]
    lines += [
        f'<key id="{ids[key]}" for="{key[0]}" attr.name="{key[1]}" attr.type="{kind}"/>'
        for key, kind in keys.items()
    ]
    lines += ['<graph edgedefault="undirected">', *_data("graph", whole, ids)]
    for vertex, about in nodes:
        data = "".join(_data("node", about, ids))
        lines.append(f"<node id={_attribute(vertex)}>{data}</node>")
    for one, other, of in edges:
        data = "".join(_data("edge", of, ids))
        ends = f"source={_attribute(one)} target={_attribute(other)}"
        lines.append(f"<edge {ends}>{data}</edge>")
    return "\n".join([*lines, "</graph>", "</graphml>", ""]).encode()


def _kinds(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return the type of each attribute; of numbers with and without a fraction, the former."""
    kinds: dict[str, str] = {}
    for row in rows:
        for name, value in row.items():
            kind = _KINDS[type(value)]
            known = kinds.setdefault(name, kind)
            if known != kind:
                kinds[name] = "double" if {known, kind} == {"long", "double"} else "string"
    return kinds


_KINDS = {bool: "boolean", int: "long", float: "double", str: "string"}


def _data(
    owner: str, about: Mapping[str, Any], ids: Mapping[tuple[str, str], str]
) -> Iterator[str]:
    for name, value in about.items():
        text = str(value).lower() if isinstance(value, bool) else escape(str(value))
        yield f'<data key="{ids[owner, name]}">{text}</data>'


def _scalars(about: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _scalar(value) for key, value in about.items()}


def _scalar(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value
    return _xml(value if isinstance(value, str) else orjson.dumps(value).decode())


def _attribute(text: str) -> str:
    return quoteattr(_xml(text))


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def dot(graph: "nx.Graph[str]") -> bytes:
    """Return the graph in the language of Graphviz."""
    children: dict[str | None, list[str]] = {}
    for vertex, about in graph.nodes(data=True):
        children.setdefault(about.get("parent"), []).append(vertex)
    lines = ["graph fabric {", "  compound=true; node [shape=box, style=rounded];"]
    for vertex in children.get(None, ()):
        lines += _vertex(graph, children, vertex, "  ")
    drawn = ((a, b, of) for a, b, of in graph.edges(data=True) if of["type"] != "contains")
    lines += [_edge(one, other, of) for one, other, of in drawn]
    return "\n".join([*lines, "}", ""]).encode()


def _vertex(
    graph: "nx.Graph[str]", children: Mapping[str | None, list[str]], vertex: str, pad: str
) -> Iterator[str]:
    """Return a vertex; one that contains others is a cluster around them."""
    about = graph.nodes[vertex]
    colour = _COLOURS.get(about.get("status", ""), "gray40")
    name, kind = about.get("name", vertex), about.get("kind", about["type"])
    below = children.get(vertex, ())
    if about["type"] == "group" or below:
        yield f"{pad}subgraph {_quoted('cluster_' + vertex)} {{"
        yield f"{pad}  label={_quoted(f'{name} ({kind})')}; color={colour};"
        if about["type"] == "node":
            yield f"{pad}  {_quoted(vertex)} [label={_quoted(name)}, color={colour}];"
        for child in below:
            yield from _vertex(graph, children, child, pad + "  ")
        yield f"{pad}}}"
        return
    gpus = f"\\n{about['gpus']} GPUs, {about['free_gpus']} free" if "gpus" in about else ""
    label = _quoted(name)[:-1] + gpus + '"'
    yield f"{pad}{_quoted(vertex)} [label={label}, color={colour}];"


def _edge(one: str, other: str, about: Mapping[str, Any]) -> str:
    state = about.get("state", "")
    label, colour = about.get("ends") or about.get("code", ""), _COLOURS.get(state, "gray40")
    style = "solid" if state in ("", "up") else "dashed"
    drawn = f"color={colour}, style={style}, tooltip={_quoted(label)}"
    return f"  {_quoted(one)} -- {_quoted(other)} [{drawn}];"


def _quoted(text: str) -> str:
    plain = _UNPRINTABLE.sub(" ", text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


FORMATS: Mapping[str, Callable[["nx.Graph[str]"], bytes]] = {
    "node-link": node_link,
    "graphml": graphml,
    "dot": dot,
}
"""What writes each format."""
