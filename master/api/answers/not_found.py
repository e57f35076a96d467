"""The 404 for a node or group that is not there, with the name that was probably meant."""

from aiohttp import web

from topo.kit.problem import problem
from topo.model.forest import Forest, Group
from topo.model.nearest import did_you_mean


def unknown_node(name: str, forest: Forest) -> web.Response:
    """The problem for a node's name that the forest does not know; too slow for the loop."""
    placed = [str(v.name) for _, v in forest.walk() if not isinstance(v, Group)]
    return _unknown("node", name, placed + [str(entry.node.name) for entry in forest.unplaced])


def unknown_group(name: str, forest: Forest) -> web.Response:
    """The same for a group's name or path."""
    groups = [(above, v) for above, v in forest.walk() if isinstance(v, Group)]
    paths = ["/".join((*above, g.name)) for above, g in groups]
    return _unknown("group", name, [str(g.name) for _, g in groups] + paths)


def _unknown(what: str, name: str, known: list[str]) -> web.Response:
    fix = did_you_mean(name, known, "GET /v1/topology lists what there is")
    return problem(404, f"there is no {what} {name!r}", field=what, fix=fix)
