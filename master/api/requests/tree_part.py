"""The part of the tree that a request names."""

from aiohttp import web

from master.api.answers import unknown_group, unknown_node
from master.api.requests.reading import Query
from master.tree.fabrics import view_of_fabric
from master.tree.selection import find_groups, find_path
from master.tree.topology_document import TopologyView, TreePart
from topo.kit.serving.problem import problem, refusal
from topo.model.errors import Refusal
from topo.model.forest import Forest
from topo.model.ids import NodeName


def find_fabric(view: TopologyView, mode: str, query: Query) -> TopologyView | web.Response:
    """Return the view of the fabric that the query names, or the 404; the view if it names none."""
    if (name := query.get("fabric")) is None:
        return view
    found = view_of_fabric(view, mode, name)
    return refusal(404, found) if isinstance(found, Refusal) else found


def find_tree_part(forest: Forest, query: Query) -> TreePart | web.Response:
    """Return the part of the tree that the query names, or the 404 with the nearest name."""
    node, group, depth = query.get("node"), query.get("group"), query.get("depth")
    if node is not None and group is not None:
        return problem(400, "node and group exclude each other", field="node", fix="give one")
    if node is not None:
        path = find_path(forest, NodeName(node))
        return unknown_node(node, forest) if path is None else TreePart(path=path, depth=depth)
    if group is not None:
        groups = find_groups(forest, group)
        return TreePart(groups, depth=depth) if groups else unknown_group(group, forest)
    return TreePart(depth=depth)
