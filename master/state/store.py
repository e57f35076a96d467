"""What every place that keeps the state offers; the state file is the first of them."""

from typing import Protocol

from master.state.document import EncodedState, State
from topo.discovery.modes import Mode
from topo.placement.booking.holds import HoldsMemory


class StateStore(Protocol):
    """Keeps the newest state. Only a master whose role lets it act calls `load` and `save`."""

    name: str
    """What people know the store by, for logs."""

    def load(self, mode: Mode, now_s: float) -> State | HoldsMemory | None:
        """The kept state; only its holds where the judgement is unusable; None without either.

        `now_s` is Unix time. What is unusable is set aside and logged, never deleted: somebody
        may have named the wrong place. Blocks.
        """
        ...

    def save(self, state: EncodedState) -> None:
        """Keeps the state whole or not at all. Blocks; raises `OSError`."""
        ...

    def age_s(self, now_s: float) -> float | None:
        """Seconds since the kept judgement was made, as of the last `load` or `save`.

        None where none is kept; 0 where the clock was set back.
        """
        ...
