"""An index of the gangs with planned pods on each node, updated record by record."""

from collections.abc import Iterable

from topo.gangs.machine.gang import GangId
from topo.gangs.machine.record import Record
from topo.model.ids import NodeName


class PlannedNodes:
    """Gangs by node, in the order in which they were planned there."""

    def __init__(self) -> None:
        self._on_node: dict[NodeName, dict[GangId, None]] = {}
        self._of_gang: dict[GangId, frozenset[NodeName]] = {}

    def gangs(self, node: NodeName) -> Iterable[GangId]:
        """Return the gangs that are planned on a node; O(1)."""
        return self._on_node.get(node, {})

    def of_others(self, gang_id: GangId) -> tuple[NodeName, ...]:
        """Return the nodes on which other gangs are planned, by name; O(planned nodes)."""
        others = (node for node, gangs in self._on_node.items() if gangs.keys() != {gang_id})
        return tuple(sorted(others))

    def follow(self, gang_id: GangId, record: Record | None) -> None:
        """Update for a record that is new or changed, or removed (None); O(members)."""
        waiting = record.waiting_pods() if record is not None else []
        had, has = self._of_gang.pop(gang_id, frozenset()), frozenset(n.node for _, n in waiting)
        for node in had - has:
            del self._on_node[node][gang_id]
            if not self._on_node[node]:
                del self._on_node[node]
        for node in has - had:
            self._on_node.setdefault(node, {})[gang_id] = None
        if has:
            self._of_gang[gang_id] = has

    def matches(self, records: Iterable[Record]) -> bool:
        """Whether the index agrees with these records, for `validate`; O(their members)."""
        counted: dict[NodeName, set[GangId]] = {}
        for record in records:
            for _, note in record.waiting_pods():
                counted.setdefault(note.node, set()).add(record.gang.id)
        return counted == {node: set(gangs) for node, gangs in self._on_node.items()}
