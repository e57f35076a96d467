"""The fabrics of a tree as the API shows them: their list, one of them, a node's groups in each."""

from collections.abc import Iterable
from dataclasses import replace

from master.tree.topology_document import TopologyView, TreePart
from topo.discovery.groups.fabrics import FIRST
from topo.discovery.tree.fabric_forests import first_fabric, forests_by_fabric
from topo.model.errors import Refusal
from topo.model.forest import Group, Node, PathGroup
from topo.model.ids import FabricName
from topo.model.nearest import did_you_mean
from topo.model.rest.topology import FabricPlaceDocument


def view_of_fabric(view: TopologyView, mode: str, name: str) -> TopologyView | Refusal:
    """Return the view of one fabric: the tree, or the forest beside it. O(nodes)."""
    forests = forests_by_fabric(view.snapshot.forest, mode, view.beside)
    for fabric, forest in forests.items():
        if fabric == name:
            return replace(view, snapshot=replace(view.snapshot, forest=forest), fabric=name)
    if not forests and FIRST.get(mode) == name:
        return replace(view, fabric=name)
    if not forests:
        fix = "one fabric is known here, which is the tree: leave `fabric` out"
        return Refusal(f"there is no fabric {name!r}", "fabric", fix)
    fix = did_you_mean(name, forests, f"there are {' and '.join(forests)}")
    return Refusal(f"there is no fabric {name!r}", "fabric", fix)


def node_places(
    view: TopologyView, mode: str, part: TreePart, node: str
) -> list[FabricPlaceDocument]:
    """Return the groups of a node in each fabric, where it has some beside the tree.

    `part` is the one that the node was found by.
    """
    if view.fabric:
        return []
    path = part.path or ()
    unplaced = (entry.node for entry in view.snapshot.forest.unplaced)
    leaf = next(each for each in (*path, *unplaced) if isinstance(each, Node) and each.name == node)
    if not leaf.elsewhere:
        return []
    above = [each for each in path if isinstance(each, Group)]
    first = first_fabric(mode, {fabric for fabric, _ in leaf.elsewhere})
    return [_place(first, above), *(_place(*each) for each in leaf.elsewhere)]


def _place(fabric: FabricName, path: Iterable[Group | PathGroup]) -> FabricPlaceDocument:
    groups = tuple(path)
    names, kinds = tuple(each.name for each in groups), tuple(each.kind for each in groups)
    return {"fabric": fabric, "path": names, "kinds": kinds}
