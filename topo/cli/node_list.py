"""The nodes of a topology as a flat list."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from topo.model.conditions.tree import ConflictCondition
from topo.model.rest.topology import (
    NodeDocument,
    TopologyDocument,
    UnplacedDocument,
    is_group,
    walk,
)

COLUMNS = (
    *("name", "group", "status", "gpu_type", "gpus", "free_gpus", "used_gpus", "held_gpus"),
    *("cordoned", "since_s", "pool", "shared", "why"),
)
"""The keys of a row for programs, in their order."""


class NodeRow(NodeDocument):
    """A node with its place, and why it is not Ready.

    `group` is the path of the innermost group, empty in none. `why` also names degraded links,
    which make no node NotReady.
    """

    group: list[str]
    why: str


def listed(document: TopologyDocument, *, unplaced: bool) -> list[NodeRow]:
    """Return the nodes in the order of the tree, then with `unplaced` those in no group. O(nodes).

    A node with degraded links says so, although it is Ready.
    """
    degraded = ConflictCondition.LINK_DEGRADED
    found = (conflict for conflict in document["conflicts"] if conflict.code == degraded)
    slow = {name: conflict.text for conflict in found for name in conflict.subjects}
    placed = [
        _row(
            node,
            path[:-1],
            [*_reasons(node), *([slow[name]] if name in slow else []), *_held(node)],
        )
        for group in document["groups"]
        for path, node in walk(group["child"], group["path"])
        if not is_group(node)
        for name in (node["name"],)
    ]
    return placed + [_unplaced(node) for node in document["unplaced"] if unplaced]


def _unplaced(node: UnplacedDocument) -> NodeRow:
    own, why = _reasons(node), node["reason"].text or node["reason"].code
    more = [] if any(why in text for text in own) else [why]
    return _row(node, (), [*own, *more, *_held(node)])


def _reasons(node: NodeDocument) -> list[str]:
    return [reason.text or reason.code for reason in node["reasons"]]


def _held(node: NodeDocument) -> Iterator[str]:
    """Yield what is held against a node although it may be Ready."""
    if node["quarantine"] is not None:
        yield f"in quarantine: {node['quarantine']}"
    if suspected := node["suspected"]:
        yield f"not to be trusted: {', '.join(suspected)}"


def _row(node: NodeDocument, group: Sequence[str], why: Iterable[str]) -> NodeRow:
    return {**node, "group": list(group), "why": "; ".join(why)}


def as_document(generation: int, nodes: Sequence[NodeRow]) -> dict[str, Any]:
    """Return the list for programs: its generation, and an object per node."""
    return {"generation": generation, "nodes": [_columns(node) for node in nodes]}


def _columns(node: Mapping[str, object]) -> dict[str, object]:
    return {key: node[key] for key in COLUMNS} | {"status": str(node["status"])}


def shared_cards(node: NodeRow) -> str:
    """Return what pods use of the node's shared cards, as `metax-tech.com/sgpu 5/32`."""
    return ", ".join(f"{s['resource']} {s['used']}/{s['allocatable']}" for s in node["shared"])


def as_csv(nodes: Sequence[NodeRow]) -> str:
    """Return the list as CSV with a header (RFC 4180); a path's names are joined with `/`.

    Shared cards are as `shared_cards` has them.
    """
    text = io.StringIO()
    rows = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    rows.writeheader()
    for node in nodes:
        written = {"group": "/".join(node["group"]), "shared": shared_cards(node)}
        rows.writerow(_columns(node) | written)
    return text.getvalue()
