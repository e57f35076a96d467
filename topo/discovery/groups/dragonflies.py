"""The group that a component of confirmed links makes, and its name."""

from collections.abc import Iterable

from topo.discovery.groups.naming import Members, NameBook, NameRecord
from topo.discovery.tree.forest import Path, PathGroup
from topo.model.ids import DRAGONFLY, GroupName, NodeName
from topo.model.observation import WORKERS


class Dragonflies:
    """Dragonflies by their members, each worked out once per generation. Mutable."""

    def __init__(self, node_number: int, records: Iterable[NameRecord]) -> None:
        self._node_number = node_number
        self._names = NameBook(DRAGONFLY, records)
        self._paths: dict[Members, Path] = {}
        self._least: dict[Members, NodeName] = {}

    @property
    def records(self) -> tuple[NameRecord, ...]:
        """All name records, for the state file."""
        return self._names.records

    def begin_generation(self) -> None:
        """Forget what was worked out for the generation before."""
        self._paths, self._least = {}, {}

    def forget(self, node: NodeName) -> None:
        """Drop a node's share in names."""
        self._names.forget(node)

    def path(self, component: Members) -> Path:
        """The path of a component's nodes; a complete component leaves its name on record."""
        if component not in self._paths:
            name = self._name(component)
            group = PathGroup(
                DRAGONFLY, name, name, WORKERS, expected=self._node_number, exact=True
            )
            self._paths[component] = (group,)
        return self._paths[component]

    def least(self, component: Members) -> NodeName:
        """The member under which a component's conflicts are listed."""
        if component not in self._least:
            self._least[component] = min(component)
        return self._least[component]

    def _name(self, component: Members) -> GroupName:
        seed = "\n".join(sorted(component))
        if len(component) > self._node_number:
            # A wiring fault must not take over the name of the group that it swallowed.
            return self._names.default(seed, component)
        name = self._names.name(seed, component)
        if len(component) == self._node_number:
            self._names.record(name, component)
        return name
