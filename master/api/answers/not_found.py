"""The 404 for a node or group that is not there, with the name that was probably meant."""

import heapq
from collections.abc import Iterable

from aiohttp import web

from topo.kit.problem import problem
from topo.kit.settings import nearest
from topo.model.forest import Forest, Group

_COMPARED_NAMES = 32
"""The nearest of 10,000 names costs 0.2 s by edit distance; by their two ends it is 20 ms."""


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
    fix = nearest(name, alike(name, known)) or "GET /v1/topology lists what there is"
    return problem(404, f"there is no {what} {name!r}", field=what, fix=fix)


def alike(name: str, known: Iterable[str]) -> list[str]:
    """The names that begin and end most like this one: a slip leaves both ends as they were."""
    wanted = name.lower()

    def ends(other: str) -> int:
        other = other.lower()
        return _shared_start(wanted, other) + _shared_start(wanted[::-1], other[::-1])

    return heapq.nlargest(_COMPARED_NAMES, known, key=ends)


def _shared_start(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
