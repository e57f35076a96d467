"""Since when each node has its status, as far as this process saw it change."""

from collections.abc import Iterable, Mapping

from topo.model.forest import Change
from topo.model.ids import NodeName


class StatusTimes:
    """The moment of every node's last change of status; owned by the engine.

    A node that the state file brought has none until its status changes: the file tells what was,
    and not since when.
    """

    def __init__(self) -> None:
        self._changed_at_s: dict[NodeName, float] = {}

    def note(self, changes: Iterable[Change], now_s: float) -> None:
        """Record the changes of a step. O(changes)."""
        for change in changes:
            if change.what in ("node-added", "node-status"):
                self._changed_at_s[NodeName(change.subject)] = now_s
            elif change.what == "node-removed":
                self._changed_at_s.pop(NodeName(change.subject), None)

    def copy(self) -> Mapping[NodeName, float]:
        """Return monotonic seconds by node, for readers in any thread. O(nodes)."""
        return self._changed_at_s.copy()
