"""The forest as `topo.publish` takes it, from the document that a master answers."""

from topo.model.forest import Forest, Group, Node, Reason, Unplaced
from topo.model.ids import GroupName, Kind, NodeName
from topo.model.rest.topology import GroupDocument, NodeDocument, TopologyDocument, is_group


def forest_of(document: TopologyDocument) -> Forest:
    """Return the groups and nodes of a document, with what names and kinds depend on. O(nodes)."""
    unplaced = (Unplaced(_node(each), each["reason"]) for each in document["unplaced"])
    return Forest(tuple(map(_group, document["groups"])), tuple(unplaced))


def _group(document: GroupDocument) -> Group:
    return Group(
        GroupName(document["name"]),
        Kind(document["kind"]),
        document["tier"],
        document["status"],
        tuple(_group(each) if is_group(each) else _node(each) for each in document["child"]),
        expected=document["expected"],
    )


def _node(document: NodeDocument) -> Node:
    reasons = tuple(Reason(each.code, each.text) for each in document["reasons"])
    return Node(NodeName(document["name"]), document["status"], reasons, document["gpus"])
