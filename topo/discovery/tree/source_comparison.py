"""What each source says of where a node belongs, compared with where it is shown."""

from collections.abc import Callable, Mapping

from topo.discovery.groups.agreement import Agreement, Disagreement, Keys
from topo.discovery.groups.fabrics import are_of_two_fabrics
from topo.discovery.groups.membership import Membership
from topo.discovery.groups.tiers import Position
from topo.discovery.modes import WITHOUT_WORKERS, DiscoverySettings
from topo.discovery.node_detail import StatedPath
from topo.model.conditions.tree import ConflictCondition
from topo.model.errors import require
from topo.model.forest import Conflict, Path
from topo.model.ids import FabricName, GroupPath, NodeName, SourceName, natural_key
from topo.model.observation import CLUSTER_MANAGER, CLUSTER_NODES, CONFIG_FILE, FABRIC, WORKERS
from topo.model.words import listed

_SAYS: Mapping[SourceName, tuple[str, str, str]] = {
    CLUSTER_MANAGER: ("the cluster manager", "puts", "is"),
    CLUSTER_NODES: ("the labels", "put", "are"),
    CONFIG_FILE: ("the config file", "puts", "is"),
    FABRIC: ("the fabric", "puts", "is"),
}
"""What a source is called, and the verbs that follow."""
_MEASURING = frozenset({WORKERS})
SHOWN_NODES, SHOWN_GROUPS = 5, 3


class SourceComparison:
    """The groups of every source that is listened to, by node. Mutable; owned by the discovery
    state.

    With one source there is nothing to compare, and nothing is kept. `paths` gives where every node
    is shown.
    """

    def __init__(
        self, settings: DiscoverySettings, paths: Callable[[], Mapping[NodeName, Path]]
    ) -> None:
        self._settings = settings
        self._written = settings.stated
        # Where cables make groups these are shown as they are measured, and confirm themselves.
        measured = (WORKERS,) if settings.mode in WITHOUT_WORKERS else ()
        self._sources = (*measured, *self._written)
        self._paths = paths
        self._is_idle = True
        """True until a source says more than is shown; until then no node is counted."""
        self._agreement = Agreement(_MEASURING)
        self._fabric: FabricName | None = None
        """That of the file's groups, by which sources may differ."""

    @property
    def confirmed(self) -> Mapping[GroupPath, tuple[SourceName, ...]]:
        """The other sources that state exactly the nodes of a group, by group."""
        return self._agreement.confirmed

    def put(self, membership: Membership, node: NodeName, path: Path) -> None:
        """Take where a node is shown; an empty path where it is in no group, or gone."""
        if not self._written:
            return
        stated = self._statements(membership, node, path)
        if self._is_idle:
            if not stated:
                return
            self._is_idle = False
            for other, of_other in self._paths().items():
                self._agreement.put(other, of_other, {})
        self._agreement.put(node, path, stated)

    def stated(self, membership: Membership, node: NodeName) -> tuple[StatedPath, ...]:
        """Return where each source that writes groups down puts a node, in their order."""
        groups = {s: _written_groups(membership, s, node) for s in self._written}
        return tuple(
            StatedPath(source, tuple(name for _, name in found))
            for source, found in groups.items()
            if found
        )

    def settle(self, membership: Membership) -> tuple[Conflict, ...] | None:
        """Judge what moved; return the conflicts between sources, None where none may differ."""
        before, self._fabric = self._fabric, membership.declared.fabric
        is_changed = self._agreement.settle() or before != self._fabric
        return self._conflicts(membership) if is_changed else None

    def validate(self, membership: Membership, positions: Mapping[NodeName, Position]) -> None:
        """Check that what is compared is what the sources state now. O(nodes)."""
        self._agreement.validate()
        if not self._written:
            return
        current = Agreement(_MEASURING)
        for node, (path, *_) in positions.items():
            current.put(node, path, self._statements(membership, node, path))
        current.settle()
        require(current.confirmed == self.confirmed, "a confirmation rests on old statements")
        found = self._agreement.disagreements
        require(current.disagreements == found, "a disagreement rests on old statements")

    def _statements(
        self, membership: Membership, node: NodeName, path: Path
    ) -> dict[SourceName, Keys]:
        """Return the keys of the groups of each source that says more than is shown of it.

        What the first source in the order says is shown wherever it says anything.
        """
        found: dict[SourceName, Keys] = {}
        first = self._written[0]
        for source in self._sources:
            keys = _keys(membership, source, node)
            if keys and (source != first or len(keys) != sum([g.source == first for g in path])):
                found[source] = keys
        return found

    def _conflicts(self, membership: Membership) -> tuple[Conflict, ...]:
        return tuple(
            _conflict(each, _names(membership, each))
            for each in self._agreement.disagreements
            if not are_of_two_fabrics(
                self._settings, membership, (each.followed, each.other), min(each.nodes)
            )
        )


def _written_groups(
    membership: Membership, source: SourceName, node: NodeName
) -> list[tuple[str, str]]:
    """Return the key and the name of each group that a source writes down, outermost first."""
    if source == CLUSTER_MANAGER:
        return [(group.id, group.name) for group in membership.machines.chain(node)]
    path = membership.statement(source, node)
    return [(group.key, group.name) for group in path] if isinstance(path, tuple) else []


def _keys(membership: Membership, source: SourceName, node: NodeName) -> Keys:
    """Return the keys of the groups that a source states, outermost first."""
    if source != WORKERS:
        return tuple([key for key, _ in _written_groups(membership, source, node)])
    if groups := membership.nvlink.groups(node):
        return tuple([group.name for group in groups])
    component = membership.wiring.component(node)
    return (membership.least(component),) if len(component) > 1 else ()


def _names(membership: Membership, found: Disagreement) -> list[str]:
    """Return the groups into which the other source puts the nodes, as people call them."""
    names: set[str] = set()
    for node in found.nodes:
        keys, path = zip(*_written_groups(membership, found.other, node), strict=True)
        depths = [len(group) for group in found.groups if keys[: len(group)] == group]
        names.add("/".join(path[: max(depths)]))
    return sorted(names, key=natural_key)


def _conflict(found: Disagreement, groups: list[str]) -> Conflict:
    nodes = sorted(found.nodes, key=natural_key)
    whom = "it" if len(nodes) == 1 else "them"
    (one, puts, is_), (other, put, _) = _SAYS[found.followed], _SAYS[found.other]
    text = (
        f"{one} {puts} {listed(nodes, SHOWN_NODES)} into {'/'.join(found.path)}, {other} {put} "
        f"{whom} into {listed(groups, SHOWN_GROUPS)} with nodes of other groups; {one} {is_} "
        "followed"
    )
    code = ConflictCondition.SOURCES_DIFFER
    return Conflict(code, tuple(nodes), text, code.next_step(NODE=nodes[0]))
