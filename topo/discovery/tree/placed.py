"""Every known node as readers see it: where it stands, what its status is, what it lacks."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from topo.discovery.groups.tiers import Position
from topo.discovery.tree.forest import Tree
from topo.model.errors import require
from topo.model.forest import Group, Node, NodeSuspicion, Path, Reason, Unplaced
from topo.model.ids import NodeName, natural_key


class PlacedNodes:
    """The tree, the values of its leaves, and the list of those in no group.

    A node is placed first and shown then; `build` gives the result. Mutable; owned by the
    discovery state.
    """

    def __init__(self) -> None:
        self._tree = Tree()
        self._nodes: dict[NodeName, Node] = {}
        self._positions: dict[NodeName, Position] = {}
        self._unplaced: dict[NodeName, Unplaced] = {}
        self._ordered = True
        """Whether `_unplaced` is in natural order: only a node that comes disturbs it."""
        self._listed: tuple[Unplaced, ...] | None = ()

    @property
    def nodes(self) -> Mapping[NodeName, Node]:
        """The value of every node as shown last."""
        return self._nodes

    def place(self, node: NodeName, position: Position) -> None:
        """Put a node where it belongs. O(depth)."""
        self._tree.place(node, position.path)
        self._positions[node] = position
        if position.path:
            self._unlist(node)

    def remove(self, node: NodeName) -> None:
        """Take out a node that no source names any more."""
        self._tree.place(node, ())
        self._nodes.pop(node, None)
        self._positions.pop(node, None)
        self._unlist(node)

    def path(self, node: NodeName) -> Path:
        """Return the groups that a node stands in, outermost first; empty where it stands
        in none.
        """
        position = self._positions.get(node)
        return position.path if position is not None else ()

    def paths(self) -> dict[NodeName, Path]:
        """Return the path of every node that is placed. O(nodes)."""
        return {node: position.path for node, position in self._positions.items()}

    def missing_tier(self, node: NodeName) -> Reason | None:
        """Return why a node in the tree is in no innermost group; None where it is, or
        is unplaced.
        """
        position = self._positions[node]
        return position.missing if position.path else None

    def show(self, judged: Node, held: NodeSuspicion | None = None) -> None:
        """Take a node's value, in the tree or in the list of the unplaced. O(depth).

        It is as it was judged, with what is `held` against it, and where it is in other fabrics.
        """
        name, node, before = judged.name, judged, self._nodes.get(judged.name)
        if held is not None or self._positions[name].elsewhere:
            elsewhere = self._positions[name].elsewhere
            node = replace(judged, suspicion=held, elsewhere=elsewhere)
        if node != before:
            self._nodes[name] = node
            if before is not None:
                self._tree.touch(name)
        position = self._positions[name]
        if not position.path and position.missing is not None:
            entry = Unplaced(node, position.missing)
            if entry != self._unplaced.get(name):
                # A known name keeps its place in the dictionary; only a new one needs sorting.
                self._ordered &= name in self._unplaced
                self._unplaced[name] = entry
                self._listed = None

    def keep_groups(self, paths: Iterable[Path]) -> None:
        """Set the groups that are shown even while no node is in them."""
        self._tree.keep(paths)

    def build(self) -> tuple[Group, ...]:
        """Return the roots; groups that nothing touched are the same objects as before."""
        return self._tree.build(self._nodes.__getitem__)

    @property
    def unplaced(self) -> tuple[Unplaced, ...]:
        """The nodes in no group, in natural order; the same object while nothing changed."""
        if self._listed is None:
            if not self._ordered:
                order = sorted(self._unplaced, key=natural_key)
                self._unplaced = {node: self._unplaced[node] for node in order}
                self._ordered = True
            self._listed = tuple(self._unplaced.values())
        return self._listed

    def validate(self, positions: Mapping[NodeName, Position]) -> None:
        """Check that the tree is what the paths make, and that a node without a path is listed."""
        require(self._nodes.keys() == positions.keys(), "known and shown nodes differ")
        require(self._positions == positions, "a node stands where it stood before")
        explained = all(each.path or each.missing for each in positions.values())
        require(explained, "a node is in no group without a reason")
        tree = Tree()
        tree.keep(self._tree.kept)
        for node, position in positions.items():
            tree.place(node, position.path)
        unplaced = {
            node: Unplaced(self._nodes[node], position.missing)
            for node, position in positions.items()
            if not position.path and position.missing is not None
        }
        require(self._unplaced == unplaced, "the list of the unplaced is out of date")
        order = [each.node.name for each in self.unplaced]
        require(order == sorted(unplaced, key=natural_key), "the unplaced are out of order")
        require(tree.build(self._nodes.__getitem__) == self.build(), "the tree was built wrongly")

    def _unlist(self, node: NodeName) -> None:
        if self._unplaced.pop(node, None) is not None:
            self._listed = None
