"""The values of a forest as rows of JSON: their fields in the order in which they are declared."""

from typing import Any

from topo.model.forest import (
    Conflict,
    Group,
    LinkState,
    Node,
    NodeSuspicion,
    PathGroup,
    Reason,
    Status,
    UnjoinedMachine,
    Unplaced,
    Wire,
)
from topo.model.ids import FabricName, GroupName, GroupPath, Kind, NodeName, ServerUuid, SourceName

Json = Any


class BrokenEditError(ValueError):
    """An edit that does not fit the forest it is applied to, or is none."""


def of_node(node: Node) -> Json:
    """Return a node with its reasons and wires; what few nodes have is at the end, or absent."""
    wires = [[w.slot, w.server, w.peer, w.state.value] for w in node.wires]
    held = node.suspicion
    against = None if held is None else [list(map(list, held.links)), held.quarantine]
    elsewhere = [[fabric, list(map(_of_path_group, path))] for fabric, path in node.elsewhere]
    return [
        node.name,
        node.status.value,
        _of_reasons(node.reasons),
        node.gpus,
        node.gpu_type,
        wires,
        *([against] if against or elsewhere else ()),
        *([elsewhere] if elsewhere else ()),
    ]


def node(row: Json) -> Node:
    """Return the node of a row."""
    name, status, why, gpus, gpu_type, wires, *more = row
    against, elsewhere = (*more, None, None)[:2]
    return Node(
        NodeName(name),
        Status(status),
        _reasons(why),
        gpus,
        gpu_type,
        tuple(
            Wire(slot, ServerUuid(server), None if peer is None else NodeName(peer), _LINKS[state])
            for slot, server, peer, state in wires
        ),
        _suspicion(*against) if against else None,
        tuple((FabricName(name), tuple(map(_path_group, path))) for name, path in elsewhere or ()),
    )


def _of_path_group(group: PathGroup) -> Json:
    return [*group[:-2], _of_reasons(group.troubles), group.generated]


def _path_group(row: Json) -> PathGroup:
    kind, key, name, source, expected, exact, troubles, generated = row
    return PathGroup(kind, key, name, source, expected, exact, _reasons(troubles), generated)


def _suspicion(links: Json, quarantine: str | None) -> NodeSuspicion:
    return NodeSuspicion(tuple((link, text) for link, text in links), quarantine)


_LINKS = {state.value: state for state in LinkState}


def of_head(group: Group) -> Json:
    """Return a group without its children."""
    return [
        group.name,
        group.kind,
        group.tier,
        group.status.value,
        _of_reasons(group.reasons),
        group.expected,
        group.source,
        group.key,
        group.place,
    ]


def group(row: Json, children: tuple[Group | Node, ...]) -> Group:
    """Return the group of a row, with these children."""
    name, kind, tier, status, why, expected, source, key, place = row
    return Group(
        GroupName(name),
        Kind(kind),
        tier,
        Status(status),
        children,
        _reasons(why),
        expected,
        None if source is None else SourceName(source),
        key,
        place,
    )


def of_unplaced(entry: Unplaced) -> Json:
    """Return a node in no group, and why."""
    return [of_node(entry.node), _of_reasons((entry.reason,))]


def unplaced(row: Json) -> Unplaced:
    """Return the node of such a row."""
    of, (reason,) = row
    return Unplaced(node(of), *_reasons([reason]))


def of_conflict(conflict: Conflict) -> Json:
    """Return a conflict."""
    return [conflict.code, list(conflict.subjects), conflict.text, conflict.fix]


def conflict(row: Json) -> Conflict:
    """Return the conflict of a row."""
    code, subjects, text, fix = row
    return Conflict(code, tuple(subjects), text, fix)


def of_unjoined(machine: UnjoinedMachine) -> Json:
    """Return a machine that no node is."""
    return [machine.id, [list(pair) for pair in machine.names], list(machine.group), machine.text]


def unjoined(row: Json) -> UnjoinedMachine:
    """Return the machine of a row."""
    id_, names, group_path, text = row
    path = GroupPath(tuple(GroupName(name) for name in group_path))
    return UnjoinedMachine(id_, tuple((key, value) for key, value in names), path, text)


def _of_reasons(reasons: tuple[Reason, ...]) -> Json:
    return [[reason.code, reason.text] for reason in reasons]


def _reasons(found: Json) -> tuple[Reason, ...]:
    return tuple(Reason(code, text) for code, text in found)
