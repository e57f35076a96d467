"""Since when each node has its status and its reasons, and each conflict is there.

As far as this process saw it.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from topo.model.forest import Change, Conflict, Node
from topo.model.ids import NodeName


class Times(NamedTuple):
    """Monotonic seconds: since when a node has its status, its reasons by code, and a conflict is.

    `reasons` has the nodes that have some.
    """

    nodes: Mapping[NodeName, float] = MappingProxyType({})
    conflicts: Mapping[tuple[str, str], float] = MappingProxyType({})
    reasons: Mapping[NodeName, Mapping[str, float]] = MappingProxyType({})

    def of_conflict(self, conflict: Conflict) -> float | None:
        """Return since when a conflict is there; None where that is not known."""
        return self.conflicts.get((conflict.code, ", ".join(conflict.subjects)))

    def of_reason(self, node: NodeName, code: str) -> float | None:
        """Return since when a node has a reason of this code; None where that is not known."""
        return self.reasons.get(node, _NONE).get(code)


_NONE: Mapping[str, float] = MappingProxyType({})


class StatusTimes:
    """The moments of the last changes of status and reasons and of new conflicts; of the engine.

    What the state file brought has none until it changes: the file tells what was, and not since
    when. A conflict or a reason whose text changes is the same one.
    """

    def __init__(self) -> None:
        self._nodes: dict[NodeName, float] = {}
        self._conflicts: dict[tuple[str, str], float] = {}
        self._reasons: dict[NodeName, dict[str, float]] = {}

    def note(
        self, changes: Iterable[Change], now_s: float, shown: Callable[[NodeName], Node | None]
    ) -> None:
        """Record the changes of a step; `shown` has the nodes after it. O(changes)."""
        came: set[tuple[str, str]] = set()
        gone: set[tuple[str, str]] = set()
        for change in changes:
            if change.what in ("node-added", "node-status"):
                self._note_node(change, now_s, shown)
            elif change.what == "node-removed":
                self._nodes.pop(NodeName(change.subject), None)
                self._reasons.pop(NodeName(change.subject), None)
            elif change.what == "conflict-added":
                came.add((change.after, change.subject))
            elif change.what == "conflict-removed":
                gone.add((change.before, change.subject))
        for conflict in gone - came:
            self._conflicts.pop(conflict, None)
        for conflict in came - gone:
            self._conflicts[conflict] = now_s

    def _note_node(
        self, change: Change, now_s: float, shown: Callable[[NodeName], Node | None]
    ) -> None:
        name = NodeName(change.subject)
        if change.what == "node-added" or change.before != change.after:
            self._nodes[name] = now_s
        node, before = shown(name), self._reasons.pop(name, {})
        codes = {reason.code for reason in node.reasons} if node is not None else set()
        # What a restored node has, it may have had before this process came.
        news = codes if name in self._nodes else codes & before.keys()
        if news:
            self._reasons[name] = {code: before.get(code, now_s) for code in news}

    def of_reason(self, node: NodeName, code: str) -> float | None:
        """Return since when a node has a reason of this code; None where that is not known."""
        return self._reasons.get(node, _NONE).get(code)

    def copy(self) -> Times:
        """Return the moments, for readers in any thread. O(nodes and conflicts)."""
        return Times(self._nodes.copy(), self._conflicts.copy(), self._reasons.copy())
