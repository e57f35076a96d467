"""Since when each node has its status and each conflict is there, as far as this process saw it."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from topo.model.forest import Change, Conflict
from topo.model.ids import NodeName


class Times(NamedTuple):
    """Monotonic seconds: when a node's status changed, and when a conflict came."""

    nodes: Mapping[NodeName, float] = MappingProxyType({})
    conflicts: Mapping[tuple[str, str], float] = MappingProxyType({})

    def of_conflict(self, conflict: Conflict) -> float | None:
        """Return since when a conflict is there; None where that is not known."""
        return self.conflicts.get((conflict.code, ", ".join(conflict.subjects)))


class StatusTimes:
    """The moments of the last changes of status and of new conflicts; owned by the engine.

    What the state file brought has none until it changes: the file tells what was, and not since
    when. A conflict whose text changes is the same conflict.
    """

    def __init__(self) -> None:
        self._nodes: dict[NodeName, float] = {}
        self._conflicts: dict[tuple[str, str], float] = {}

    def note(self, changes: Iterable[Change], now_s: float) -> None:
        """Record the changes of a step. O(changes)."""
        came: set[tuple[str, str]] = set()
        gone: set[tuple[str, str]] = set()
        for change in changes:
            if change.what in ("node-added", "node-status"):
                self._nodes[NodeName(change.subject)] = now_s
            elif change.what == "node-removed":
                self._nodes.pop(NodeName(change.subject), None)
            elif change.what == "conflict-added":
                came.add((change.after, change.subject))
            elif change.what == "conflict-removed":
                gone.add((change.before, change.subject))
        for conflict in gone - came:
            self._conflicts.pop(conflict, None)
        for conflict in came - gone:
            self._conflicts[conflict] = now_s

    def copy(self) -> Times:
        """Return the moments, for readers in any thread. O(nodes and conflicts)."""
        return Times(self._nodes.copy(), self._conflicts.copy())
