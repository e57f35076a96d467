"""The list of conflicts, kept by who owns each, put in order only when something in it changed."""

from collections.abc import Iterator, Mapping

from topo.discovery.groups.wiring import Wiring
from topo.discovery.invariants import require
from topo.discovery.tree import conflicts
from topo.model.forest import Conflict
from topo.model.ids import NodeName
from topo.model.observation import WorkerRefused


class ConflictList:
    """Conflicts of nodes, machines, shared server UUIDs, and of reports refused lately. Mutable."""

    def __init__(self) -> None:
        self._of_nodes: dict[NodeName, tuple[Conflict, ...]] = {}
        self._of_machines: tuple[Conflict, ...] = ()
        self._refused: dict[tuple[NodeName, str], tuple[float, Conflict]] = {}
        self._changed = False
        self._listed: tuple[Conflict, ...] = ()

    def has(self, node: NodeName) -> bool:
        """Whether a node owns a conflict."""
        return node in self._of_nodes

    def set_node(self, node: NodeName, owned: tuple[Conflict, ...]) -> None:
        """The conflicts that a node owns now."""
        if owned == self._of_nodes.get(node, ()):
            return
        self._changed = True
        if owned:
            self._of_nodes[node] = owned
        else:
            del self._of_nodes[node]

    def set_machines(self, found: tuple[Conflict, ...]) -> None:
        """The conflicts among the manager's machines now."""
        self._changed |= found != self._of_machines
        self._of_machines = found

    def refuse(self, event: WorkerRefused, now_s: float) -> None:
        """List a report that was not accepted, until `expire` finds it too old."""
        fix = "see the log of the refused worker"
        conflict = Conflict(event.code, (event.node,), event.text, fix)
        known = self._refused.get((event.node, event.code))
        self._changed |= known is None or known[1] != conflict
        self._refused[event.node, event.code] = (now_s, conflict)

    def expire(self, before_s: float) -> None:
        """Drop the reports that were refused before that time and not again since."""
        late = [key for key, (at_s, _) in self._refused.items() if at_s < before_s]
        for key in late:
            del self._refused[key]
            self._changed = True

    def listed(self, wiring: Wiring) -> tuple[Conflict, ...]:
        """All conflicts in order; the same object while nothing changed."""
        if self._changed or wiring.shared_changed:
            self._listed = conflicts.in_order(self._all(wiring))
            self._changed = False
        return self._listed

    def validate(
        self, of_nodes: Mapping[NodeName, tuple[Conflict, ...]], of_machines: tuple[Conflict, ...]
    ) -> None:
        """What is listed is what the finders find now."""
        owned = {node: found for node, found in of_nodes.items() if found}
        require(owned == self._of_nodes, "the conflicts of a node are out of date")
        require(of_machines == self._of_machines, "the conflicts of machines are out of date")

    def _all(self, wiring: Wiring) -> Iterator[Conflict]:
        yield from self._of_machines
        yield from conflicts.of_wiring(wiring)
        for owned in self._of_nodes.values():
            yield from owned
        yield from (conflict for _, conflict in self._refused.values())
