"""What is true of the cluster: who is wired to whom, and what somebody has broken.

Nodes are numbered through from 1. Two make a dragonfly, the vendor's own shape, and a number of
dragonflies one switchbox.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.chaos.model.verdicts import Bounds

READY, NOT_READY = "Ready", "NotReady"
PAIR = 2
SILENT = "silent"
"""Faults whose name begins so keep a node's worker from speaking."""

Node = tuple[str, str]
"""Name and status."""
Group = tuple[str, tuple[Node, ...]]
"""Status and nodes of a dragonfly: its name is generated, so it is known by its members."""
Tree = tuple[tuple[str, str, tuple[Group, ...]], ...]
"""Name, status and dragonflies of each switchbox, in order."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """How the cluster was asked to be wired."""

    switchboxes: int = 2
    dragonflies: int = 3

    @property
    def nodes(self) -> tuple[str, ...]:
        """All names, in order."""
        count = self.switchboxes * self.dragonflies * PAIR
        return tuple(f"node-sample{number}" for number in range(1, count + 1))

    @property
    def world(self) -> str:
        """The size as the simulator takes it."""
        return f"{self.switchboxes}x{self.dragonflies}x{PAIR}"

    def dragonfly(self, node: str) -> int:
        """Which dragonfly, from 0, through the whole cluster."""
        return self.nodes.index(node) // PAIR

    def switchbox(self, node: str) -> str:
        """The name of the switchbox."""
        return f"switchbox-sample{self.dragonfly(node) // self.dragonflies + 1}"

    def partner(self, node: str) -> str:
        """The node at the other end of its cable."""
        return self.nodes[self.nodes.index(node) ^ 1]


class Truth:
    """What stands, and since when. Whoever breaks or mends something says so here first."""

    def __init__(self, wiring: Wiring, bounds: Bounds, now_s: float) -> None:
        self.wiring = wiring
        self.bounds = bounds
        self._faults: dict[str, set[str]] = {node: set() for node in wiring.nodes}
        self._changed_s = dict.fromkeys(wiring.nodes, now_s)
        self._master_s = now_s
        self._answered_s: float | None = None
        self._is_away = True
        self._forgot_s: float | None = None
        self._steady: set[str] = set()

    def begin(self, fault: str, nodes: Iterable[str], now_s: float) -> None:
        """From now on this is wrong with the nodes."""
        for node in nodes:
            self._faults[node].add(fault)
            self._touch(node, now_s)

    def end(self, fault: str, nodes: Iterable[str], now_s: float) -> None:
        """From now on it is not, if it was."""
        for node in nodes:
            if fault in self._faults[node]:
                self._faults[node].remove(fault)
                self._touch(node, now_s)

    def _touch(self, node: str, now_s: float) -> None:
        self._changed_s[node] = now_s
        self._steady.discard(node)

    def standing(self, node: str) -> frozenset[str]:
        """What is wrong with a node."""
        return frozenset(self._faults[node])

    def master_away(self, now_s: float) -> None:
        """From now on the master may not answer."""
        self._is_away, self._master_s, self._answered_s = True, now_s, None

    def master_back(self, now_s: float) -> None:
        """It runs, and may take `start_s` to serve."""
        self._is_away, self._master_s = False, now_s

    def master_answered(self, now_s: float) -> None:
        """It has answered: from now on it has no excuse."""
        if not self._is_away and self._answered_s is None:
            self._answered_s = now_s

    def forget(self, now_s: float) -> None:
        """The master starts without what it knew: a node that does not speak may be unknown."""
        self._forgot_s = now_s
        self._steady.clear()

    def settled(self) -> None:
        """The expected tree was seen, and is on disk: what is healthy must stay Ready."""
        self._forgot_s = None
        self._steady = {node for node in self.wiring.nodes if not self._faults[node]}

    @property
    def _begun_s(self) -> float:
        """When the master began to answer: a slow machine takes long to start a process."""
        by_s = self._master_s + self.bounds.start_s
        return by_s if self._answered_s is None else min(by_s, self._answered_s)

    def is_serving(self, since_s: float) -> bool:
        """Whether the master runs and must have answered what was asked at that time."""
        return not self._is_away and since_s > self._begun_s

    def serves_for_s(self, now_s: float) -> float:
        """How long the master has served without a break, 0 while it is away."""
        return 0.0 if self._is_away else max(0.0, now_s - self._begun_s)

    def _is_old(self, node: str, since_s: float) -> bool:
        """Whether a master that served all the time must have noticed what is true of the node."""
        return since_s - max(self._changed_s[node], self._begun_s) > self.bounds.window_s

    def must_be_known(self, node: str, since_s: float) -> bool:
        """Whether an answer to a question of that time must have the node."""
        if self._forgot_s is None:
            return True
        speaks = not any(fault.startswith(SILENT) for fault in self._faults[node])
        return speaks and self._is_old(node, since_s)

    def required_status(self, node: str, since_s: float) -> str | None:
        """The one status that an answer to a question of that time may show, None for either."""
        if node in self._steady:
            return READY
        if not self._is_old(node, since_s):
            return None
        return NOT_READY if self._faults[node] else READY

    def allowance_s(self) -> float:
        """What the documentation grants the standing faults until they show."""
        silent = any(
            fault.startswith(SILENT) for faults in self._faults.values() for fault in faults
        )
        return self.bounds.stale_s + self.bounds.reconnect_s if silent else 0.0

    def expected(self) -> Tree:
        """The tree that must come, whatever was before."""
        boxes: dict[str, dict[int, list[Node]]] = {}
        for node in self.wiring.nodes:
            status = NOT_READY if self._faults[node] else READY
            groups = boxes.setdefault(self.wiring.switchbox(node), {})
            groups.setdefault(self.wiring.dragonfly(node), []).append((node, status))
        tree = []
        for box, groups in boxes.items():
            rows = [(all_ready(nodes), tuple(sorted(nodes))) for nodes in groups.values()]
            tree.append((box, all_ready(rows, at=0), tuple(sorted(rows, key=lambda row: row[1]))))
        return tuple(sorted(tree))


def all_ready(rows: Iterable[tuple[object, ...]], at: int = 1) -> str:
    """Ready, if each row has it at that place."""
    return READY if all(row[at] == READY for row in rows) else NOT_READY
