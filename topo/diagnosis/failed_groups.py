"""Groups whose nodes failed together: one finding names the group, in the place of each node.

Result: one finding for each group of which at least half of the nodes, and `TOGETHER` of them, have
failed: Kubernetes, their worker, the cluster manager or their own links say so. It names the group
and takes the place of all that is told of its nodes for the same reason.

Why that is right: nodes fail alone by chance, and together by a cause. The outermost such group is
named, as a room is more than its racks; and inside it the innermost that holds all of them, as half
of a cluster of two switchboxes is one switchbox.

Example: a switchbox of 16 nodes loses its power. Its manager has 16 machines NotReady, and each
node sees 16 ports down: one finding, which names the switchbox, in the place of 16 + 16 cases.

Cost: O(vertices) where a node failed, else O(cases).
"""

from collections.abc import Collection, Iterable, Iterator

from topo.diagnosis.cases import Cases, subjects
from topo.diagnosis.finding import Case, Finding, longest_s, number
from topo.model.conditions.doctor import ServiceCondition
from topo.model.conditions.tree import ConflictCondition, NodeCondition
from topo.model.rest.topology import (
    GroupDocument,
    NodeDocument,
    TopologyDocument,
    is_group,
    walk,
)

TOGETHER = 3
"""Nodes; two are as often an accident, and all of a dragonfly of two."""
_FAILED = (
    NodeCondition.NODE_NOT_READY,
    NodeCondition.MANAGER,
    NodeCondition.WORKER_STALE,
    NodeCondition.PORT_DOWN,
    NodeCondition.LINK_DOWN,
)
_FOLLOWS = (
    ConflictCondition.LINK_DEGRADED,
    ConflictCondition.LINK_SUSPECTED,
    ConflictCondition.SUSPECTED_TOGETHER,
    NodeCondition.UPLINKS_DOWN,
)


def failed_groups(document: TopologyDocument, cases: Cases) -> Iterator[Finding]:
    """Report the groups that failed, and take out what their nodes say of it."""
    failed = frozenset(subjects(cases.of(*_FAILED)))
    if len(failed) < TOGETHER:
        return
    placed = {vertex["name"] for _, vertex in walk(document["groups"]) if not is_group(vertex)}
    nodes = placed.union(entry["name"] for entry in document["unplaced"])
    for path, members, size in list(_outermost(document["groups"], failed)):
        told = cases.forgive(members, *_FAILED)
        others = nodes.difference(members)
        cases.take(*_FOLLOWS, if_=lambda case: others.isdisjoint(case.subjects))  # noqa: B023
        name = "/".join(path)
        what = f"{len(members)} of {size} nodes of {name} failed together: {_each(told)}"
        code = ServiceCondition.FAILED_TOGETHER
        fix, names = code.next_step(NODE=members[0]), (name, *members)
        yield Finding(code.severity, code, name, what, fix, names, longest_s(told))


def _each(told: Iterable[Case]) -> str:
    """Return what is said of the nodes, for each kind of failure once."""
    by_code: dict[str, list[Case]] = {}
    for case in told:
        by_code.setdefault(case.code, []).append(case)
    return "; ".join(
        f"{cases[0].text} ({number(nodes := subjects(cases), 'node')}, as {nodes[0]})"
        for cases in by_code.values()
    )


def _outermost(
    vertices: Iterable[GroupDocument | NodeDocument],
    failed: Collection[str],
    above: tuple[str, ...] = (),
) -> Iterator[tuple[tuple[str, ...], list[str], int]]:
    """Yield path, failed nodes and size of the groups that failed."""
    for group in vertices:
        if not is_group(group):
            continue
        path = (*above, group["name"])
        members, size = _below(group, failed)
        if len(members) < TOGETHER:
            continue
        inner = list(_outermost(group["child"], failed, path))
        if (inner and inner[0][1] == members) or 2 * len(members) < size:
            yield from inner
        else:
            yield path, members, size


def _below(group: GroupDocument, failed: Collection[str]) -> tuple[list[str], int]:
    """Return the nodes of a group that failed, and how many it has."""
    names = [vertex["name"] for _, vertex in walk([group]) if not is_group(vertex)]
    return [name for name in names if name in failed], len(names)
