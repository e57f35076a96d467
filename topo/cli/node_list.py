"""The nodes of a topology as a flat list, and which of them somebody asks for."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

from topo.model.conditions.tree import ConflictCondition
from topo.model.rest.topology import (
    NodeDocument,
    SharedCardsDocument,
    TopologyDocument,
    UnplacedDocument,
    is_group,
    walk,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node with what one asks of many: its place, its status, its GPUs, and why it is not Ready.

    `group` is the path of the innermost group, empty in none. `since_s` is for how long it has had
    its status, None where nobody knows. The other fields are those of `NodeDocument`. `why` also
    tells of degraded links, which make no node NotReady.
    """

    name: str
    group: tuple[str, ...]
    status: str
    gpu_type: str
    gpus: int
    free_gpus: int
    used_gpus: int
    held_gpus: int
    cordoned: bool
    since_s: float | None
    pool: str
    shared: list[SharedCardsDocument]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFilter:
    """Which nodes are listed: those that fit all that is given.

    `names` are patterns of which one must fit, `free` is the least number.
    """

    names: tuple[str, ...] = ()
    status: str | None = None
    gpu_type: str | None = None
    free: int | None = None
    held: bool | None = None
    cordoned: bool | None = None

    def has(self, node: NodeRow) -> bool:
        """Whether the node is one of them."""
        return (
            (not self.names or any(fnmatchcase(node.name, name) for name in self.names))
            and (self.status is None or node.status == self.status)
            and (self.gpu_type is None or node.gpu_type == self.gpu_type)
            and (self.free is None or node.free_gpus >= self.free)
            and (self.held is None or (node.held_gpus > 0) == self.held)
            and (self.cordoned is None or node.cordoned == self.cordoned)
        )


def listed(document: TopologyDocument, *, unplaced: bool) -> list[NodeRow]:
    """The nodes in the order of the tree, then those in no group if they are wanted. O(nodes).

    A node with degraded links says so, although it is Ready.
    """
    code = ConflictCondition.LINK_DEGRADED
    slow = {c.subjects[0]: c.text for c in document["conflicts"] if c.code == code}
    placed = [
        _listed(
            vertex,
            path[:-1],
            [reason.text or reason.code for reason in vertex["reasons"]]
            + ([slow[vertex["name"]]] if vertex["name"] in slow else []),
        )
        for group in document["groups"]
        for path, vertex in walk(group["child"], group["path"])
        if not is_group(vertex)
    ]
    return placed + [_unplaced(node) for node in document["unplaced"] if unplaced]


def _unplaced(node: UnplacedDocument) -> NodeRow:
    own = [reason.text or reason.code for reason in node["reasons"]]
    why = node["reason"].text or node["reason"].code
    return _listed(node, (), [*own, *([] if any(why in text for text in own) else [why])])


def _listed(node: NodeDocument, group: tuple[str, ...], why: Iterable[str]) -> NodeRow:
    return NodeRow(
        name=node["name"],
        group=group,
        status=str(node["status"]),
        gpu_type=node["gpu_type"],
        gpus=node["gpus"],
        free_gpus=node["free_gpus"],
        used_gpus=node["used_gpus"],
        held_gpus=node["held_gpus"],
        cordoned=node["cordoned"],
        since_s=node["since_s"],
        pool=node["pool"],
        shared=node["shared"],
        why="; ".join(why),
    )


def as_document(generation: int, nodes: Sequence[NodeRow]) -> dict[str, Any]:
    """The list for programs: the generation that it is of, and an object per node."""
    rows = [{**asdict(node), "group": list(node.group)} for node in nodes]
    return {"generation": generation, "nodes": rows}


def shared_cards(node: NodeRow) -> str:
    """What pods use of the node's shared cards, of how many: `metax-tech.com/sgpu 5/32`."""
    return ", ".join(f"{s['resource']} {s['used']}/{s['allocatable']}" for s in node.shared)


def as_csv(nodes: Sequence[NodeRow]) -> str:
    """The list as CSV with a header (RFC 4180); a path's names are joined with `/`.

    Shared cards are as `shared_cards` has them.
    """
    text = io.StringIO()
    names = [each.name for each in fields(NodeRow)]
    rows = csv.DictWriter(text, names, lineterminator="\n")
    rows.writeheader()
    for node in nodes:
        written = {"group": "/".join(node.group), "shared": shared_cards(node)}
        rows.writerow(asdict(node) | written)
    return text.getvalue()
