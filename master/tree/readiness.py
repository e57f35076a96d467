"""When the forest may be shown: not before every source that the mode needs has settled.

A decision over times and counts, kept apart from the HTTP handlers so that it can be tested
without waiting. Readiness never goes back: a failing source leaves the last good forest standing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from topo.discovery.modes import Mode
from topo.discovery.sources import SOURCES, Source, SourceView, Startup
from topo.model.forest import Snapshot, SourceState
from topo.model.ids import SourceName


@dataclass(slots=True)
class Readiness:
    """Which sources are waited for. `restored`: a state file showed a forest before they spoke."""

    mode: Mode
    startup: Startup
    sources: Sequence[Source] = SOURCES
    restored: bool = False
    _ready: bool = False

    def missing(self, snapshot: Snapshot, now_s: float) -> tuple[str, ...]:
        """Return why the forest is not shown yet; empty once it is, and then for ever."""
        if self._ready or self.restored:
            self._ready = True
            return ()
        # Those that list machines come first: who else is silent may follow from their silence.
        needed = [source for source in self.sources if self.mode in source.needed_in]
        needed.sort(key=lambda source: not source.lists_machines)
        # A list of nobody lists nobody's machines: it ends no wait.
        listed = bool(snapshot.forest.roots) and any(s.lists_machines for s in needed)
        states = {state.source: state for state in snapshot.sources}
        found = (
            source.unsettled(
                SourceView(
                    state=states.get(source.name),
                    startup=self.startup,
                    all_joined=listed and not snapshot.forest.unjoined,
                    now_s=now_s,
                )
            )
            for source in needed
        )
        reasons = tuple(reason for reason in found if reason)
        self._ready = not reasons
        return reasons

    def untried(self, snapshot: Snapshot) -> tuple[SourceName, ...]:
        """Return the needed sources that have neither answered nor failed in this process.

        A kept state may be shown meanwhile, but what was published since it was kept is newer:
        nothing is to be published by it yet. Where a source fails, what was kept of it stands.
        """
        needed = [s.name for s in self.sources if self.mode in s.needed_in and s.is_asked]
        states = {state.source: state for state in snapshot.sources}
        return tuple(name for name in needed if not _has_been_tried(states.get(name)))


def _has_been_tried(state: SourceState | None) -> bool:
    return state is not None and (state.last_good_at_s is not None or bool(state.trouble))
