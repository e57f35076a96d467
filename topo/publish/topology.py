"""The whole story as `GET /v1/topology` tells it: statuses with reasons, sources, conflicts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from topo.model.forest import (
    ROOT,
    Change,
    Conflict,
    Forest,
    Group,
    Node,
    Reason,
    Snapshot,
    SourceState,
    Status,
    UnjoinedMachine,
    Unplaced,
)
from topo.model.ids import NODE, GroupPath, NodeName

Json = dict[str, Any]
Placed = tuple[GroupPath, Group]
"""A group with the path of its parent."""


def document(
    snapshot: Snapshot,
    mode: str,
    now_s: float,
    *,
    groups: tuple[Placed, ...] | None = None,
    depth: int | None = None,
) -> Json:
    """The document of `GET /v1/topology`; `groups` instead of all roots, cut below `depth` levels.

    `now_s` is on the clock of the snapshot's sources (monotonic seconds); ages are in seconds.
    """
    forest = snapshot.forest
    shown = tuple((ROOT, root) for root in forest.roots) if groups is None else groups
    return {
        "generation": snapshot.generation,
        "mode": mode,
        "restored_age_s": snapshot.restored_age_s,
        "groups": [group_document(group, above, depth) for above, group in shown],
        "unplaced": [_unplaced(entry) for entry in forest.unplaced],
        "conflicts": [conflict_document(conflict) for conflict in forest.conflicts],
        "unjoined": [_unjoined(machine) for machine in forest.unjoined],
        "sources": [_source(state, now_s) for state in snapshot.sources],
    }


def group_document(group: Group, above: GroupPath, depth: int | None) -> Json:
    """One group with its capacity, and its children down to `depth` levels (None: all)."""
    path = GroupPath((*above, group.name))
    below = None if depth is None else depth - 1
    children = group.children if below is None or below >= 0 else ()
    return {
        "name": group.name,
        "kind": group.kind,
        "tier": group.tier,
        "path": list(path),
        "key": group.key,
        "status": group.status,
        "reasons": _reasons(group.reasons),
        "expected": group.expected,
        "source": group.source,
        "capacity": _capacity(group),
        "child": [
            group_document(child, path, below) if isinstance(child, Group) else node_document(child)
            for child in children
        ],
    }


def node_document(node: Node) -> Json:
    """One node as a child of its group."""
    return {
        "name": node.name,
        "kind": NODE,
        "status": node.status,
        "reasons": _reasons(node.reasons),
        "gpus": node.gpus,
        "gpu_type": node.gpu_type,
    }


def find_groups(forest: Forest, wanted: str) -> tuple[Placed, ...]:
    """The groups of that name, or the one whose path joined with `/` it is. O(groups)."""
    return tuple(
        (above, vertex)
        for above, vertex in forest.walk()
        if isinstance(vertex, Group)
        and (vertex.name == wanted or "/".join((*above, vertex.name)) == wanted)
    )


def path_to(forest: Forest, node: NodeName) -> tuple[Placed, ...] | None:
    """The one root around a placed node, pruned to the path; empty if unplaced, None if unknown."""
    for root in forest.roots:
        pruned = _pruned(root, node)
        if pruned is not None:
            return ((ROOT, pruned),)
    return () if any(entry.node.name == node for entry in forest.unplaced) else None


def _pruned(group: Group, node: NodeName) -> Group | None:
    for child in group.children:
        if isinstance(child, Group):
            below = _pruned(child, node)
            if below is not None:
                return replace(group, children=(below,))
        elif child.name == node:
            return replace(group, children=(child,))
    return None


def change_document(change: Change) -> Json:
    """One change, for the event stream and for diffs."""
    return {
        "generation": change.generation,
        "what": change.what,
        "subject": change.subject,
        "before": change.before,
        "after": change.after,
        "why": change.why,
        "status": change.status,
    }


def conflict_document(conflict: Conflict) -> Json:
    """One conflict with the way out."""
    return {
        "code": conflict.code,
        "subjects": list(conflict.subjects),
        "text": conflict.text,
        "fix": conflict.fix,
    }


def _capacity(group: Group) -> Json:
    nodes = list(_leaves(group))
    ready = [node for node in nodes if node.status is Status.READY]
    return {
        "nodes": len(nodes),
        "ready": len(ready),
        "gpus": sum(node.gpus for node in nodes),
        "ready_gpus": sum(node.gpus for node in ready),
    }


def _leaves(group: Group) -> Iterator[Node]:
    for child in group.children:
        if isinstance(child, Group):
            yield from _leaves(child)
        else:
            yield child


def _reasons(reasons: tuple[Reason, ...]) -> list[Json]:
    return [{"code": reason.code, "text": reason.text} for reason in reasons]


def _unplaced(entry: Unplaced) -> Json:
    reason = {"code": entry.reason.code, "text": entry.reason.text}
    return {**node_document(entry.node), "reason": reason}


def _unjoined(machine: UnjoinedMachine) -> Json:
    return {
        "id": machine.id,
        "names": dict(machine.names),
        "group": list(machine.group),
        "text": machine.text,
    }


def _source(state: SourceState, now_s: float) -> Json:
    failing = state.failing_since_s
    good = state.last_good_at_s
    word = "failing" if failing is not None else "waiting" if good is None else "ok"
    return {
        "source": state.source,
        "state": word,
        "age_s": None if good is None else round(now_s - good, 1),
        "failing_s": None if failing is None else round(now_s - failing, 1),
        "trouble": state.trouble,
    }
