"""How each source fares: when it last gave a good answer, and what is wrong since."""

from collections.abc import Iterable

from topo.discovery.modes import Mode
from topo.discovery.sources import Source
from topo.model.forest import SourceState
from topo.model.ids import SourceName
from topo.model.observation import SourceFailed


class SourceStates:
    """The state of every source that a mode uses, in the order of the table; then of any other.

    Mutable; owned by the discovery state.
    """

    def __init__(self, sources: Iterable[Source], mode: Mode) -> None:
        used = [source for source in sources if source.is_used_in(mode)]
        self._states = {source.name: SourceState(source.name, None) for source in used}
        self._needed = [source.name for source in used if mode in source.needed_in]
        self._answered: set[SourceName] = set()

    @property
    def all(self) -> tuple[SourceState, ...]:
        """The states, for readers."""
        return tuple(self._states.values())

    @property
    def needed_have_answered(self) -> bool:
        """Whether each source that the mode needs has answered in this process."""
        return all(self._states[name].last_good_at_s is not None for name in self._needed)

    def answered(self, source: SourceName) -> None:
        """A source gave a good answer; `settle` says when."""
        self._answered.add(source)

    def failed(self, event: SourceFailed, now_s: float) -> None:
        """A source gave no usable answer; its last good one keeps its time."""
        self._answered.discard(event.source)
        before = self._states.get(event.source, SourceState(event.source, None))
        since_s = now_s if before.failing_since_s is None else before.failing_since_s
        self._states[event.source] = SourceState(
            event.source, before.last_good_at_s, since_s, event.refusal
        )

    def settle(self, now_s: float) -> None:
        """Note the time of all good answers since the last call: one state for many beats."""
        for source in self._answered:
            self._states[source] = SourceState(source, now_s)
        self._answered.clear()
