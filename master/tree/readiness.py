"""When the tree may be shown: not before every source that the mode needs has spoken.

A decision over times and counts, kept apart from the HTTP handlers so that it can be tested
without waiting. Readiness never goes back: a failing source leaves the last good tree standing.
"""

from dataclasses import dataclass

from topo.discovery.modes import Mode
from topo.model.forest import Snapshot, SourceState
from topo.model.ids import SourceName
from topo.model.observation import CLUSTER_MANAGER, CONFIG_FILE

QUIET_S = 1.0
"""No new node for this long after the first one: those who start together have all reported."""


@dataclass(slots=True)
class Settling:
    """Who has spoken since the start. `beat_s` bounds the wait for workers, `quiet_s` ends it.

    `resumed` says that a worker reported from the middle of its sequence: workers run longer than
    we do, each comes at its next beat or try, and quiet proves nothing.
    """

    mode: Mode
    beat_s: float
    started_s: float
    quiet_s: float = QUIET_S
    restored: bool = False
    resumed: bool = False
    nodes: int = 0
    newest_node_s: float | None = None
    _ready: bool = False

    def node_reported(self, now_s: float) -> None:
        """A node that was not heard before sent its facts."""
        self.nodes += 1
        self.newest_node_s = now_s

    def missing(self, snapshot: Snapshot, now_s: float) -> tuple[str, ...]:
        """Why the tree is not shown yet; empty once it is, and then for ever."""
        if self._ready or self.restored:
            self._ready = True
            return ()
        sources = {state.source: state for state in snapshot.sources}
        reasons = []
        if self.mode is Mode.CONFIG:
            reasons += _silent(sources, CONFIG_FILE, "the config file was not read yet")
        if self.mode.asks_manager:
            reasons += _silent(sources, CLUSTER_MANAGER, "the cluster manager has not answered yet")
        if self.mode.asks_workers and not self._workers_settled(snapshot, now_s):
            reasons.append(f"workers are still reporting ({self.nodes} nodes so far)")
        self._ready = not reasons
        return tuple(reasons)

    def _workers_settled(self, snapshot: Snapshot, now_s: float) -> bool:
        if now_s - self.started_s >= self.beat_s:
            return True
        if self.newest_node_s is None:
            return False
        if self.mode.asks_manager and not snapshot.forest.unjoined:
            return True  # every machine that the manager lists has a worker
        return not self.resumed and now_s - self.newest_node_s >= self.quiet_s


def _silent(
    sources: dict[SourceName, SourceState], source: SourceName, otherwise: str
) -> list[str]:
    state = sources.get(source)
    if state is None:
        return [otherwise]
    if state.last_good_at_s is not None:
        return []
    return [f"{otherwise}: {state.trouble}" if state.trouble else otherwise]
