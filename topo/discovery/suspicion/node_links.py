"""What is followed of one node: its links, its ports that are down, its quarantine."""

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from topo.discovery.suspicion.memory import NodeLinksMemory
from topo.discovery.suspicion.record import LinkRecord
from topo.model.forest import NodeSuspicion
from topo.model.ids import BootId, NodeName, ServerUuid, natural_key
from topo.model.machine import NodeFacts

DOWN_S = 3.0
"""A port that is up again sooner fell, and is not down."""
TOGETHER = 4
"""Links of a node; so many do not break at once, each by itself."""
WHOLE_NODE = ""
"""The name of what happens to so many of them."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """An operator's word that no job starts on a node: why, and since when (monotonic s)."""

    reason: str
    at_s: float


class Fall(NamedTuple):
    """When a port fell, and at what rate it ran; 0 where that is not known."""

    at_s: float
    rate: float = 0.0


@dataclass(slots=True)
class NodeLinks:
    """The links of a node. `counted_in` is the boot whose counters the worker read last, and
    `counted_s` when it did; before `quiet_until_s` its links train.

    `server`: the one that others name at the ends of their cables to this node. `down`: ports that
    fell and were not seen up since, with their falls.
    `is_gone`: nobody knows the node any more; it stays for as long as something is held against it.
    """

    boot: BootId
    seen: NodeFacts | None = None
    server: ServerUuid | None = None
    quiet_until_s: float = 0.0
    counted_in: BootId | None = None
    counted_s: float = -inf
    links: dict[str, LinkRecord] = field(default_factory=dict)
    quarantine: Quarantine | None = None
    down: dict[str, Fall] = field(default_factory=dict)
    is_gone: bool = False

    def suspicion(self, now_s: float) -> NodeSuspicion | None:
        """Return what is held against the node; None where that is nothing. O(its links)."""
        suspected = self._suspected(now_s)
        reason = self.quarantine.reason if self.quarantine is not None else None
        if reason is None and not suspected:
            return None
        return NodeSuspicion(suspected, reason)

    def _suspected(self, now_s: float) -> tuple[tuple[str, str], ...]:
        """Return the links that are told with their evidence, those that are down among them."""
        found = {link: record.text for link, record in self.links.items() if record.is_suspected}
        down = [link for link, fall in self.down.items() if now_s - fall.at_s >= DOWN_S]
        if len(down) >= TOGETHER:
            texts = {WHOLE_NODE: f"{len(down)} ports are down"}
        else:
            texts = dict.fromkeys(down, "is down")
        told = {
            link: "; ".join(filter(None, (text, found.get(link)))) for link, text in texts.items()
        }
        return tuple(sorted((found | told).items(), key=lambda each: natural_key(each[0])))

    def persistent_state(self, name: NodeName, now_s: float) -> NodeLinksMemory | None:
        """Return what a state file keeps of the node; None where there is nothing to keep."""
        if not (self.links or self.down or self.quarantine is not None):
            return None
        kept = self.quarantine
        return NodeLinksMemory(
            name,
            tuple(each.persistent_state(link, now_s) for link, each in self.links.items()),
            None if kept is None else (kept.reason, now_s - kept.at_s),
            tuple((link, now_s - fall.at_s, fall.rate) for link, fall in self.down.items()),
        )
